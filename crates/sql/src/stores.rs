//! Object stores that COPY writes to, made when a URL first names them.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use diligence_storage::external::open_store;
use diligence_storage::foreign_error::to_datafusion;
use object_store::ObjectStore;
use url::Url;

/// The surroundings of DataFusion's operators: local files and, with the credentials in the environment, object stores.
/// The memory pool in it bounds nothing and is for planning only: each query runs with one over its own account.
pub fn runtime_env() -> diligence_base::Result<Arc<RuntimeEnv>> {
    RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(Stores::default()))
        .build_arc()
        .map_err(diligence_storage::foreign_error::from_datafusion)
}

#[derive(Debug, Default)]
struct Stores {
    known: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        if let Ok(store) = self.known.get_store(url) {
            return Ok(store);
        }
        let (store, _) = open_store(url.as_str(), url).map_err(to_datafusion)?;
        self.known.register_store(url, store.clone());
        Ok(store)
    }
}
