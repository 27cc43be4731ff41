//! clio-namespace
