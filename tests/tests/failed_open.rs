//! A file that is made and then can't be opened leaves no empty name behind, unless somebody else has come to use it.

use clio::{Client, Errno, OpenOptions};
use clio_core::env::Env;
use clio_core::object::{Device, ObjectBuilder};
use clio_core::sync::Mutex;
use clio_core::{Error, Result};
use clio_tests::{content, narrow, read_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What happens between the making of a file and its being opened.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A layer that refuses objects as told, as one without memory or descriptors does.
struct Refusing {
    below: Arc<dyn Device>,
    refuses: Arc<AtomicBool>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

impl Device for Refusing {
    fn layer(&self) -> &'static str {
        "refusing"
    }

    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        if !self.refuses.load(Ordering::Relaxed) {
            return self.below.object_init(env, builder);
        }
        if let Some(meanwhile) = self.meanwhile.lock().take() {
            // No lock of this client's is wanted by it, but the rules on locks are one thread's.
            std::thread::spawn(meanwhile).join().expect("meanwhile");
        }
        Err(Error::new(Errno::EMFILE, "open", "no descriptor is left"))
    }
}

/// A client that opens nothing while it refuses, and another one of its store.
struct Bed {
    refusing: Client,
    other: Client,
    refuses: Arc<AtomicBool>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

impl Bed {
    fn new(store: &str) -> Bed {
        let (refuses, meanwhile) = (Arc::<AtomicBool>::default(), Arc::<Mutex<_>>::default());
        let layer = (refuses.clone(), meanwhile.clone());
        let refusing = Client::builder()
            .store(store)
            .layer(move |below| {
                Arc::new(Refusing { below, refuses: layer.0.clone(), meanwhile: layer.1.clone() }) as Arc<dyn Device>
            })
            .connect()
            .expect("client");
        let other = Client::open(store).expect("client");
        refuses.store(true, Ordering::Relaxed);
        Bed { refusing, other, refuses, meanwhile }
    }

    fn fails(&self, path: &str, options: OpenOptions) {
        let e = self.refusing.open_with(path, options).expect_err("refused");
        assert_eq!(e.errno(), Errno::EMFILE, "{e}");
    }

    fn fails_while(&self, path: &str, options: OpenOptions, meanwhile: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Box::new(meanwhile));
        self.fails(path, options);
    }

    fn names(&self) -> Vec<String> {
        let all = self.other.read_dir("/").expect("list");
        all.iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    }
}

#[test]
fn the_name_goes_again() {
    let bed = Bed::new("mem:failed-open?targets=2");
    bed.other.symlink("/led-to", "/link").expect("link");
    for options in [read_write(), read_write().create_new(true), read_write().truncate(true).layout(narrow(2))] {
        bed.fails("/f", options);
        assert_eq!(bed.names(), ["link"]);
    }
    bed.fails("/link", read_write());
    assert_eq!(bed.names(), ["link"], "what the link leads to went, and the link stays");
    bed.refuses.store(false, Ordering::Relaxed);
    let file = bed.refusing.open_with("/f", read_write()).expect("open");
    file.write_all_at(b"new", 0).expect("write");
    file.close().expect("close");
    assert_eq!(content(&bed.other, "/f"), b"new");
}

#[test]
fn a_file_that_was_there_stays() {
    let bed = Bed::new("mem:failed-open-old");
    bed.other.create("/f").expect("create").close().expect("close");
    bed.fails("/f", read_write().truncate(true));
    assert_eq!(bed.names(), ["f"]);
}

#[test]
fn what_somebody_else_came_to_use_stays() {
    let bed = Bed::new("mem:failed-open-shared");
    let (other, held) = (bed.other.clone(), Arc::<Mutex<_>>::default());
    let hold = held.clone();
    bed.fails_while("/open", read_write(), move || {
        *hold.lock() = Some(other.open_file("/open").expect("open"));
    });
    let other = bed.other.clone();
    bed.fails_while("/written", read_write(), move || {
        let file = other.open_with("/written", read_write()).expect("open");
        file.write_all_at(b"mine", 0).expect("write");
        file.close().expect("close");
    });
    let other = bed.other.clone();
    bed.fails_while("/renamed", read_write(), move || other.rename("/renamed", "/new").expect("rename"));
    let other = bed.other.clone();
    bed.fails_while("/linked", read_write(), move || other.hard_link("/linked", "/second").expect("link"));
    assert_eq!(bed.names(), ["linked", "new", "open", "second", "written"]);
    assert_eq!(content(&bed.other, "/written"), b"mine");
}
