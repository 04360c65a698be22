//! The store that DataFusion's writers write to: another store, whose failures are remembered for a person.
//!
//! Writers are not waited for: a statement that ends early drops them, and an operation of the file system that has
//! begun goes on in some thread. So every operation holds the staging folder's guard to its own end, and the last one
//! clears the folder.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use diligence_storage::external::StagingGuard;
use futures::stream::BoxStream;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// The first error of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<Mutex<Option<object_store::Error>>>);

impl Failure {
    /// The error, if there was one.
    pub(super) fn take(&self) -> Option<object_store::Error> {
        self.0.lock().take()
    }

    /// Keeps the first error, and gives the caller one that says the same.
    fn seen<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let text = error.to_string();
            self.0.lock().get_or_insert(error);
            object_store::Error::Generic { store: "copy", source: text.into() }
        })
    }
}

/// A store that remembers why it could not be written to.
#[derive(Debug)]
pub(super) struct WriterStore {
    inner: Arc<dyn ObjectStore>,
    witness: Witness,
}

/// What every operation carries.
#[derive(Clone, Debug)]
struct Witness {
    failure: Failure,
    guard: Option<StagingGuard>,
}

impl WriterStore {
    /// A store over `inner`. `guard` is that of the folder that it writes to, if it is a staging folder.
    pub(super) fn new(inner: Arc<dyn ObjectStore>, failure: Failure, guard: Option<StagingGuard>) -> Self {
        Self { inner, witness: Witness { failure, guard } }
    }
}

impl Witness {
    /// Runs an operation to its end even if nobody waits for it any more.
    async fn run<T: Send + 'static>(&self, operation: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let Some(guard) = self.guard.clone() else { return self.failure.seen(operation.await) };
        let task = tokio::spawn(async move {
            let result = operation.await;
            drop(guard);
            result
        });
        self.failure.seen(task.await.unwrap_or_else(|error| Err(error.into())))
    }
}

impl fmt::Display for WriterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for WriterStore {
    async fn put_opts(&self, path: &StorePath, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (inner, path) = (self.inner.clone(), path.clone());
        self.witness.run(async move { inner.put_opts(&path, payload, options).await }).await
    }

    async fn put_multipart_opts(
        &self,
        path: &StorePath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (inner, path) = (self.inner.clone(), path.clone());
        let upload = self.witness.run(async move { inner.put_multipart_opts(&path, options).await }).await?;
        Ok(Box::new(WitnessedUpload { inner: Some(upload), witness: self.witness.clone() }))
    }

    async fn get_opts(&self, path: &StorePath, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &StorePath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<StorePath>>) -> BoxStream<'static, Result<StorePath>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &StorePath, to: &StorePath, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct WitnessedUpload {
    /// None when it is complete or aborted.
    inner: Option<Box<dyn MultipartUpload>>,
    witness: Witness,
}

impl Drop for WitnessedUpload {
    /// A store keeps the parts of an upload that nobody completes, and wants to be paid for them.
    fn drop(&mut self) {
        let (Some(mut inner), Ok(runtime)) = (self.inner.take(), Handle::try_current()) else { return };
        let guard = self.witness.guard.clone();
        runtime.spawn(async move {
            // The statement has failed, and says why.
            let _ = inner.abort().await;
            drop(guard);
        });
    }
}

/// The answer to a writer that goes on after the end.
fn ended() -> object_store::Error {
    object_store::Error::Generic { store: "copy", source: "the upload has ended".into() }
}

#[async_trait]
impl MultipartUpload for WitnessedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.as_mut().map(|inner| inner.put_part(data));
        let witness = self.witness.clone();
        Box::pin(async move { witness.run(part.ok_or_else(ended)?).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let mut inner = self.inner.take().ok_or_else(ended)?;
        self.witness.run(async move { inner.complete().await }).await
    }

    async fn abort(&mut self) -> Result<()> {
        let mut inner = self.inner.take().ok_or_else(ended)?;
        self.witness.run(async move { inner.abort().await }).await
    }
}
