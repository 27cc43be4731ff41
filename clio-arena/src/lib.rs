//! clio-arena
