//! HTTP.

use std::sync::Arc;
use diligence_base::Result;
use crate::server::Server;
pub(crate) fn router(_: &Arc<Server>) -> Result<()> { Ok(()) }
pub(crate) async fn listen(_: Arc<Server>, _: tokio::net::TcpListener, _: ()) {}
