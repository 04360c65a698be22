//! HTTP.

use crate::server::Server;
use diligence_base::Result;
use std::sync::Arc;
pub(crate) fn router(_: &Arc<Server>) -> Result<()> {
    Ok(())
}
pub(crate) async fn listen(_: Arc<Server>, _: tokio::net::TcpListener, _: ()) {}
