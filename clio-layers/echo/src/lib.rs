//! clio-echo
