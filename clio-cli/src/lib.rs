//! clio-cli
