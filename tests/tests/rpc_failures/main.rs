//! Failures of each kind of request, injected between the whole client stack and its targets.

mod kinds;
mod replies;
mod script;
mod sweep;
