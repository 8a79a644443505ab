//! Who uses which file of a namespace: a region is read in place, so nobody else may write the same bytes.
//!
//! A name is either lent to one region, or to any number of readers and writers that copy. Removing or replacing a name
//! ends its story here: whoever uses the old file keeps the old file.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::{Result, names};

/// Held as long as a file is used.
pub(crate) type UseToken = Arc<()>;

#[derive(Debug, Default)]
struct Use {
    region: Weak<()>,
    copying: Weak<()>,
}

/// The files of one namespace that are in use.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    files: HashMap<String, Use>,
}

impl Uses {
    /// For a region: nobody else may use the file.
    pub(crate) fn enter_region(&mut self, operation: &'static str, path: &str) -> Result<UseToken> {
        self.drop_finished();
        if self.files.contains_key(path) {
            return Err(names::invalid(operation, path, "it is in use"));
        }
        let token = UseToken::default();
        self.files.insert(path.to_owned(), Use { region: Arc::downgrade(&token), copying: Weak::new() });
        Ok(token)
    }

    /// For somebody who copies in or out: no region may lie over the file.
    pub(crate) fn enter_copying(&mut self, operation: &'static str, path: &str) -> Result<UseToken> {
        self.drop_finished();
        let user = self.files.entry(path.to_owned()).or_default();
        if user.region.strong_count() > 0 {
            return Err(names::invalid(operation, path, "it is mapped as a region"));
        }
        let token = user.copying.upgrade().unwrap_or_default();
        user.copying = Arc::downgrade(&token);
        Ok(token)
    }

    fn drop_finished(&mut self) {
        self.files.retain(|_, user| user.region.strong_count() + user.copying.strong_count() > 0);
    }

    /// The name now means another file, or none.
    pub(crate) fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }
}
