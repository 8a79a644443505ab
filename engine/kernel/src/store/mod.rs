//! The store.

pub(crate) mod head;
pub(crate) mod state;
