//! clio-targets
