//! The device: one for each target of a client.

use crate::client::Callbacks;
use crate::config::OscConfig;
use crate::lock_table::LockTable;
use crate::lru::LockUpkeep;
use crate::object::OscObject;
use crate::staging::ObjectStage;
use crate::state::{Books, StateGuard};
use crate::stats::{Counters, OscStats};
use crate::workers::Workers;
use clio_core::env::Env;
use clio_core::error::{Errno, Error, Result};
use clio_core::object::{Device, Object, ObjectBuilder};
use clio_core::sync::atomic::AtomicBool;
use clio_core::sync::{OnceLock, RwLock};
use clio_core::target::{Op, Target};
use clio_core::units::{ClientId, Extent, TargetIndex};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The transfer device of one client for one target. Objects on it are stripes, or whole files where no layer splits.
#[doc(alias = "client_obd")]
pub struct OscDevice {
    pub(crate) this: Weak<OscDevice>,
    pub(crate) target: Arc<dyn Target>,
    client: OnceLock<ClientId>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) config: RwLock<OscConfig>,
    pub(crate) books: Books,
    pub(crate) locks: LockTable,
    pub(crate) upkeep: LockUpkeep,
    pub(crate) counters: Counters,
    /// A worker was asked to run the engine, and has not begun.
    pub(crate) pump_due: AtomicBool,
}

impl OscDevice {
    /// Connects to `target` as a new client. `workers` may be shared with other devices.
    ///
    /// # Errors
    /// What the target says.
    pub fn new(target: Arc<dyn Target>, config: OscConfig, workers: Arc<Workers>) -> Result<Arc<Self>> {
        let config = config.sane();
        let device = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            target,
            client: OnceLock::new(),
            workers,
            books: Books::new(config.max_dirty_bytes),
            config: RwLock::new(config),
            locks: LockTable::new(),
            upkeep: LockUpkeep::default(),
            counters: Counters::default(),
            pump_due: AtomicBool::new(false),
        });
        let (client, grant) = device.target.connect(Arc::new(Callbacks::new(Arc::downgrade(&device))))?;
        let _ = device.client.set(client);
        device.lock_state().credits.receive(grant, true);
        Ok(device)
    }

    /// Takes the device's mutex.
    pub(crate) fn lock_state(&self) -> StateGuard<'_> {
        self.books.lock()
    }

    /// Index of the target in its store.
    pub fn target_index(&self) -> TargetIndex {
        self.target.index()
    }

    /// The target.
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// The id under which the target knows this client.
    pub fn client(&self) -> ClientId {
        // Set before anybody has the device.
        self.client.get().copied().unwrap_or(ClientId(u64::MAX))
    }

    /// The settings now.
    pub fn config(&self) -> OscConfig {
        self.config.read().clone()
    }

    /// Changes settings. A lower limit holds for what comes; nothing is taken back.
    pub fn configure(self: &Arc<Self>, env: &Env, change: impl FnOnce(&mut OscConfig)) {
        let max_dirty = {
            let mut config = self.config.write();
            change(&mut config);
            *config = config.clone().sane();
            config.max_dirty_bytes
        };
        {
            let mut state = self.lock_state();
            state.credits.set_max_dirty(max_dirty);
            self.wake(&state);
        }
        self.pump(env);
    }

    /// A snapshot of the device's figures.
    pub fn stats(&self) -> OscStats {
        let state = self.lock_state();
        OscStats {
            rpcs_in_flight: state.on_their_way as u64,
            rpcs_waiting: (state.pending.len() + state.hot.len()) as u64,
            credits: state.credits,
            locks: self.locks.len() as u64,
            ..self.counters.snapshot()
        }
    }

    /// Checks that grant and dirty quota are conserved and that staged extents don't overlap. For tests and for
    /// diagnosis; takes time in proportion to what is staged.
    ///
    /// # Errors
    /// What doesn't add up.
    pub fn check_accounting(&self) -> Result<()> {
        let checked = self.lock_state().check();
        checked.map_err(|text| Error::new(Errno::EPROTO, "accounting", text))
    }

    /// Starts write-out of everything that is staged. Doesn't wait.
    pub fn write_out(self: &Arc<Self>, env: &Env) {
        self.lock_state().make_old_urgent(Instant::now());
        self.pump(env);
    }

    /// Writes everything out, gives all locks back, and disconnects. IOs and users of locks must be gone. Blocks.
    ///
    /// # Errors
    /// The first error of a write that happened meanwhile, or of the disconnect.
    pub fn shutdown(self: &Arc<Self>, env: &Env) -> Result<()> {
        let objects: Vec<Arc<Object>> = {
            let mut state = self.lock_state();
            state.closed = true;
            state.objects.values().filter_map(|s| s.object.upgrade()).collect()
        };
        let keys: Vec<_> = self.lock_state().objects.keys().copied().collect();
        let cursors: Vec<_> = objects.iter().map(|o| (o, o.errors().cursor())).collect();
        for key in keys {
            self.flush(env, key, Extent::WHOLE, true);
        }
        for object in &objects {
            object.locks().cancel_all(env);
        }
        let mut first = cursors.iter().find_map(|(o, cursor)| o.errors().report(cursor)).map_or(Ok(()), Err);
        {
            let mut state = self.lock_state();
            while !state.is_quiet() {
                self.books.wait(&mut state, None);
            }
        }
        let left = match self.call(Op::Disconnect) {
            // The answer to the first attempt was lost.
            Err(e) if e.errno() == Errno::ESTALE => Ok(()),
            left => left.map(|_| ()),
        };
        first = first.and(left);
        first
    }

    /// Sees to it that staged data doesn't get too old.
    pub(crate) fn arm_tick(self: &Arc<Self>) {
        {
            let mut state = self.lock_state();
            if state.tick_armed || state.closed {
                return;
            }
            state.tick_armed = true;
        }
        let period = self.config.read().writeback_age / 4;
        let device = Arc::downgrade(self);
        self.workers.after(period, move |env| {
            if let Some(device) = Weak::upgrade(&device) {
                device.tick(env);
            }
        });
    }

    fn tick(self: &Arc<Self>, env: &Env) {
        let age = self.config.read().writeback_age;
        let staged = {
            let mut state = self.lock_state();
            state.tick_armed = false;
            let limit = Instant::now().checked_sub(age);
            limit.is_none_or(|limit| state.make_old_urgent(limit))
        };
        self.pump(env);
        if staged {
            self.arm_tick();
        } else {
            self.return_surplus();
        }
    }

    /// Gives grant back that an idle device doesn't need: all but what fills its RPC slots, and a burst.
    fn return_surplus(&self) {
        let keep = {
            let config = self.config.read();
            config.max_rpc_bytes.saturating_mul(config.max_rpcs_in_flight as u64).max(config.burst_bytes())
        };
        let bytes = {
            let mut state = self.lock_state();
            let surplus = state.credits.available.saturating_sub(keep);
            state.credits.give_back(surplus)
        };
        if bytes > 0 {
            // If it is lost on the way, the target has given more than is in use: it takes that back when we go.
            self.target.submit(self.client(), Op::ReturnGrant { bytes }, Box::new(|_| {}));
        }
    }
}

impl Device for OscDevice {
    fn layer(&self) -> &'static str {
        "osc"
    }

    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        let shutting = || Error::new(Errno::ESHUTDOWN, "find", "the client is shutting down");
        let device = self.this.upgrade().ok_or_else(shutting)?;
        let object = builder.object();
        let stage = ObjectStage::new(Arc::downgrade(object), object.fid());
        let key = {
            let mut state = self.lock_state();
            if state.closed {
                return Err(shutting());
            }
            state.add_object(stage)
        };
        builder.push(Box::new(OscObject::new(device, key)));
        Ok(())
    }
}

impl fmt::Debug for OscDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OscDevice")
            .field("target", &self.target.index())
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
