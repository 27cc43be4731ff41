//! clio-vvp
