//! `clio getstripe`.

use crate::app::App;
use crate::output::Output;
use crate::paths::stored;
use crate::report::Stop;
use crate::show::{JsonName, exact};
use clap::Args;
use clio::{Client, ComponentDescription, Description, FileLayout, Layout};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Show the layout of a file, or of a folder's new files
#[derive(Args, Debug)]
pub(crate) struct Getstripe {
    /// Print YAML
    #[arg(short, long, conflicts_with = "json")]
    yaml: bool,
    /// A path in the store
    #[arg(value_parser = stored())]
    path: PathBuf,
}

/// What is shown of one path.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    name: JsonName,
    /// `file`, `folder` (its own wish for new files) or `default` (a folder without one: what new files get).
    of: &'static str,
    #[serde(flatten)]
    layout: Description,
}

impl Getstripe {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let (of, layout) = describe(&client, &self.path).map_err(|e| Stop::on(&self.path, e))?;
        if app.json() {
            return app.print_json(&Shown { name: JsonName::new(&self.path), of, layout });
        }
        let mut out = app.out();
        match self.yaml {
            true => out.text(layout.to_string())?,
            false => print(&mut out, &self.path, of, &layout)?,
        }
        out.finish()
    }
}

fn describe(client: &Client, path: &Path) -> clio::Result<(&'static str, Description)> {
    if client.metadata(path)?.is_dir() {
        return match client.dir_layout(path)? {
            Some(wish) => Ok(("folder", wanted(&wish)?)),
            None => Ok(("default", client.config().layout_for(path).describe())),
        };
    }
    let (fid, layout) = client.layout(path)?;
    Ok(("file", layout.describe(fid)))
}

fn wanted(layout: &FileLayout) -> clio::Result<Description> {
    Ok(Layout::from_components(layout.wanted())?.describe())
}

fn print(out: &mut Output, path: &Path, of: &str, layout: &Description) -> Result<(), Stop> {
    out.name(path)?;
    match (&layout.fid, layout.generation) {
        (Some(fid), Some(generation)) => out.line(format!("  {fid}  generation {generation}"))?,
        _ if of == "folder" => out.line("  (layout of new files)")?,
        _ => out.line("  (layout of new files, by the settings)")?,
    }
    for c in &layout.components {
        out.line(format!("  {}", component(c)))?;
    }
    Ok(())
}

/// One line: `[0, 1M)  2 stripes of 64K  on targets 0, 3`.
fn component(c: &ComponentDescription) -> String {
    let end = c.end_bytes.map_or_else(|| "EOF".into(), exact);
    let size = exact(c.stripe_size_bytes);
    let stripes = match c.stripe_count {
        None => format!("stripes of {size} on all targets"),
        Some(1) => format!("1 stripe of {size}"),
        Some(n) => format!("{n} stripes of {size}"),
    };
    let mut text = format!("[{}, {end})  {stripes}", exact(c.start_bytes));
    if c.overstriping {
        text.push_str("  overstriped");
    }
    if let Some(pool) = &c.pool {
        text.push_str(&format!("  pool {pool}"));
    }
    if let Some(first) = c.first_target.filter(|_| !c.instantiated) {
        text.push_str(&format!("  first target {first}"));
    }
    match c.instantiated {
        true => {
            let targets: Vec<_> = c.stripes.iter().map(|s| s.target.to_string()).collect();
            text.push_str(&format!("  on targets {}", targets.join(", ")));
        }
        false => text.push_str("  not written yet"),
    }
    text
}
