//! The stored form of layouts: compact, versioned, canonical.
//!
//! All numbers are little-endian. One layout has exactly one encoding, and whatever decodes encodes to the same bytes.
//!
//! ```text
//! magic "CLAY" · version u8 = 1 · kind u8 (0 wish, 1 file) · generation u64 (file only) · components u16
//! each: end u64 · stripe_size u64 · stripe_count u16 (0 all) · flags u8
//!       [first_target u16] · [pool: length u8, bytes] · [stripes: count u16, target u16 each]
//! ```
//! A component begins where the one before ends. The flags say which of the bracketed parts are there. Damage is found
//! by the record that a layout is stored in, which carries a checksum: what is checked here is that a layout is one.

use super::{Component, FileComponent, FileLayout, Layout, LayoutGeneration, MAX_COMPONENTS, MAX_STRIPES};
use super::{StripeCount, Striping};
use clio_core::units::{Extent, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;

const MAGIC: [u8; 4] = *b"CLAY";
const VERSION: u8 = 1;
const KIND_WISH: u8 = 0;
const KIND_FILE: u8 = 1;

const OVERSTRIPING: u8 = 1;
const FIRST_TARGET: u8 = 2;
const POOL: u8 = 4;
const INSTANTIATED: u8 = 8;
const KNOWN_FLAGS: u8 = OVERSTRIPING | FIRST_TARGET | POOL | INSTANTIATED;

impl Layout {
    /// The stored form, for a folder's default layout. Check the layout first: one that [`Layout::check`] refuses
    /// has no encoding that decodes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = header(KIND_WISH);
        put_count(&mut out, self.components().len());
        for c in self.components() {
            put_component(&mut out, c, &[]);
        }
        out
    }

    /// The inverse of [`Layout::encode`]. Never panics.
    ///
    /// # Errors
    /// `EBADMSG` for bytes that are no layout, `EOPNOTSUPP` for one of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader { left: bytes };
        r.header(KIND_WISH)?;
        let components = r.components()?;
        r.end()?;
        if components.iter().any(|c| !c.stripes.is_empty()) {
            return Err(damaged("it has targets although it is no file's"));
        }
        checked(&components)
    }
}

impl FileLayout {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = header(KIND_FILE);
        out.extend(self.generation.0.to_le_bytes());
        put_count(&mut out, self.components.len());
        for c in &self.components {
            put_component(&mut out, &c.wanted, &c.stripes);
        }
        out
    }

    /// The inverse of [`FileLayout::encode`]. Never panics. Whether the targets exist is not known here.
    ///
    /// # Errors
    /// `EBADMSG` for bytes that are no layout, `EOPNOTSUPP` for one of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader { left: bytes };
        r.header(KIND_FILE)?;
        let generation = LayoutGeneration(u64::from_le_bytes(r.take()?));
        let components = r.components()?;
        r.end()?;
        checked(&components)?;
        components.iter().try_for_each(check_stripes)?;
        Ok(Self::assemble(generation, components))
    }
}

fn header(kind: u8) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([VERSION, kind]);
    out
}

fn put_count(out: &mut Vec<u8>, n: usize) {
    // Checked layouts are far below; for others the decoder finds out.
    out.extend(u16::try_from(n).unwrap_or(u16::MAX).to_le_bytes());
}

fn put_component(out: &mut Vec<u8>, wanted: &Component, stripes: &[TargetIndex]) {
    let s = &wanted.striping;
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let flags = flag(s.overstriping, OVERSTRIPING)
        | flag(s.first_target.is_some(), FIRST_TARGET)
        | flag(s.pool.is_some(), POOL)
        | flag(!stripes.is_empty(), INSTANTIATED);
    out.extend(wanted.extent.end.to_le_bytes());
    out.extend(s.stripe_size.to_le_bytes());
    out.extend(s.stripe_count.raw().to_le_bytes());
    out.push(flags);
    if let Some(first) = s.first_target {
        out.extend(first.0.to_le_bytes());
    }
    if let Some(pool) = &s.pool {
        out.push(u8::try_from(pool.len()).unwrap_or(u8::MAX));
        out.extend(pool.as_bytes());
    }
    if !stripes.is_empty() {
        put_count(out, stripes.len());
        stripes.iter().for_each(|t| out.extend(t.0.to_le_bytes()));
    }
}

fn damaged(why: impl Into<Cow<'static, str>>) -> Error {
    let why = why.into();
    Error::new(Errno::EBADMSG, "read layout", format!("the stored layout is damaged: {why}; run `clio check`"))
}

/// The rules for a new layout hold for a stored one.
fn checked(components: &[FileComponent]) -> Result<Layout> {
    let wishes = components.iter().map(|c| c.wanted.clone()).collect();
    Layout::from_components(wishes).map_err(|e| damaged(e.detail().to_owned()))
}

/// The stripes that a component has agree with what it wanted.
fn check_stripes(c: &FileComponent) -> Result<()> {
    let n = c.stripes.len();
    let distinct: BTreeSet<_> = c.stripes.iter().collect();
    if n > usize::from(MAX_STRIPES) {
        return Err(damaged(format!("{n} stripes are too many")));
    }
    if !c.striping().overstriping && distinct.len() < n {
        return Err(damaged("a target holds two stripes without overstriping"));
    }
    match c.striping().stripe_count {
        StripeCount::Exactly(wanted) if n > usize::from(wanted) => {
            Err(damaged(format!("it has {n} stripes instead of {wanted}")))
        }
        _ => Ok(()),
    }
}

/// What is left to decode.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, left) = self.left.split_first_chunk().ok_or_else(|| damaged("it is cut short"))?;
        self.left = left;
        Ok(*head)
    }

    fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, left) = self.left.split_at_checked(n).ok_or_else(|| damaged("it is cut short"))?;
        self.left = left;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn header(&mut self, kind: u8) -> Result<()> {
        if self.take()? != MAGIC {
            return Err(damaged("it does not begin like one"));
        }
        match self.u8()? {
            VERSION => {}
            0 => return Err(damaged("it has no version")),
            newer => {
                let detail = format!("the layout has version {newer}, this program knows {VERSION}; use a newer Clio");
                return Err(Error::new(Errno::EOPNOTSUPP, "read layout", detail));
            }
        }
        if self.u8()? != kind {
            return Err(damaged("it is of the wrong kind"));
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { Err(damaged("bytes follow it")) }
    }

    fn components(&mut self) -> Result<Vec<FileComponent>> {
        let n = usize::from(self.u16()?);
        if n > MAX_COMPONENTS {
            return Err(damaged(format!("{n} components are too many")));
        }
        let mut start = 0;
        let mut components = Vec::with_capacity(n);
        for _ in 0..n {
            let c = self.component(start)?;
            start = c.extent().end;
            components.push(c);
        }
        Ok(components)
    }

    fn component(&mut self, start: u64) -> Result<FileComponent> {
        let extent = Extent { start, end: self.u64()? };
        let stripe_size = self.u64()?;
        let stripe_count = match self.u16()? {
            u16::MAX => return Err(damaged("its stripe count is not in the form that is stored")),
            n => StripeCount::from_raw(n),
        };
        let flags = self.u8()?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(damaged("it has unknown flags"));
        }
        let has = |flag| flags & flag != 0;
        let first_target = has(FIRST_TARGET).then(|| self.u16()).transpose()?.map(TargetIndex);
        let pool = has(POOL).then(|| self.pool()).transpose()?;
        let stripes = has(INSTANTIATED).then(|| self.stripes()).transpose()?.unwrap_or_default();
        let striping = Striping { stripe_size, stripe_count, first_target, overstriping: has(OVERSTRIPING), pool };
        Ok(FileComponent { wanted: Component { extent, striping }, stripes })
    }

    fn pool(&mut self) -> Result<String> {
        let n = usize::from(self.u8()?);
        let name = std::str::from_utf8(self.bytes(n)?).map_err(|_| damaged("a pool's name is not text"))?;
        Ok(name.to_owned())
    }

    fn stripes(&mut self) -> Result<Vec<TargetIndex>> {
        let n = usize::from(self.u16()?);
        if n == 0 {
            return Err(damaged("a component has no stripes"));
        }
        let (pairs, _) = self.bytes(n * 2)?.as_chunks();
        Ok(pairs.iter().map(|b| TargetIndex(u16::from_le_bytes(*b))).collect())
    }
}
