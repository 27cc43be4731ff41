//! clio-osc
