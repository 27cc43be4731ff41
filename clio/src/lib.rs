//! clio
