//! A disk in memory that knows what a power failure would leave of it: for tests.
//!
//! Each file has two contents, what is read and what was last synced, with the changes between them; so have the
//! entries of all folders. [`CrashDisk::crash`] takes what was synced and lets a seed choose among the changes.
//!
//! Not here: links, permissions, and a limit to what fits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{Access, Disk, DiskFile, FileKind, FileMeta, OpenMode};
use crate::seams::Random;

/// What a disk writes in one piece, if it does.
const SECTOR_BYTES: usize = 512;

/// What offsets and lengths past the page cache are multiples of.
const PAGE_BYTES: usize = 4096;

/// A disk in memory. Clones are the same disk. Relative paths begin at its root.
#[derive(Clone, Debug, Default)]
pub struct CrashDisk(Arc<Mutex<Volume>>);

/// A number of a file or folder; the root's is 0.
type NodeId = usize;

/// The entries of one folder.
type Entries = BTreeMap<OsString, NodeId>;

#[derive(Debug)]
struct Volume {
    nodes: Vec<Node>,
    /// Entries as a crash leaves them, but for the changes, of folders that have or had any.
    synced: BTreeMap<NodeId, Entries>,
    changes: Vec<EntryChange>,
    /// Steps of time: one for each change.
    time: u64,
}

#[derive(Debug)]
enum Node {
    Folder(FolderNode),
    File(FileNode),
}

#[derive(Debug, Default)]
struct FolderNode {
    entries: Entries,
    modified: u64,
}

#[derive(Debug, Default)]
struct FileNode {
    content: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<FileChange>,
    modified: u64,
}

#[derive(Debug)]
enum FileChange {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A change of entries that a crash may undo.
#[derive(Clone, Debug)]
struct EntryChange {
    /// The entry that goes, and the one that comes.
    gone: Option<(NodeId, OsString)>,
    come: Option<(NodeId, OsString, NodeId)>,
    is_synced: bool,
}

impl EntryChange {
    /// The folder whose sync makes it durable.
    fn folder(&self) -> Option<NodeId> {
        self.come.as_ref().map(|come| come.0).or(self.gone.as_ref().map(|gone| gone.0))
    }

    fn apply(&self, folders: &mut BTreeMap<NodeId, Entries>) {
        if let Some((folder, name)) = &self.gone {
            folders.entry(*folder).or_default().remove(name);
        }
        if let Some((folder, name, node)) = &self.come {
            folders.entry(*folder).or_default().insert(name.clone(), *node);
        }
    }
}

impl Default for Volume {
    fn default() -> Self {
        let nodes = vec![Node::Folder(FolderNode::default())];
        Self { nodes, synced: BTreeMap::new(), changes: Vec::new(), time: 0 }
    }
}

impl CrashDisk {
    /// A disk that holds these files, all of it synced.
    pub fn holding<P: AsRef<Path>, B: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, B)>) -> Self {
        let disk = Self::default();
        let mut volume = disk.0.lock();
        for (path, bytes) in files {
            let bytes = bytes.into();
            let file = FileNode { synced: bytes.clone(), content: bytes, ..FileNode::default() };
            volume.put(&names(path.as_ref()), Node::File(file));
        }
        drop(volume);
        disk
    }

    /// All files, and what is read of them.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        self.0.lock().visit(0, &[], &|_, folder| Some(&folder.entries), &mut |names, node| {
            if let Node::File(file) = node {
                files.insert(path_of(names), file.content.clone());
            }
        });
        files
    }

    /// The disk as it is found after the power fails now. All that was synced is there; of all else, this seed decides.
    pub fn crash(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let volume = self.0.lock();
        let mut folders = volume.synced.clone();
        for change in &volume.changes {
            if change.is_synced || random.below(2) == 0 {
                change.apply(&mut folders);
            }
        }
        let mut found = Volume { time: volume.time, ..Volume::default() };
        volume.visit(0, &[], &|folder, _| folders.get(&folder), &mut |names, node| {
            let node = match node {
                Node::Folder(folder) => Node::Folder(FolderNode { modified: folder.modified, ..FolderNode::default() }),
                Node::File(file) => {
                    let content = file.after_crash(&mut random);
                    let synced = content.clone();
                    Node::File(FileNode { content, synced, changes: Vec::new(), modified: file.modified })
                }
            };
            found.put(names, node);
        });
        Self(Arc::new(Mutex::new(found)))
    }
}

/// The names that lead from the root to a path.
fn names(path: &Path) -> Vec<OsString> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => drop(names.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}

fn path_of(names: &[OsString]) -> PathBuf {
    std::iter::once(OsStr::new("/")).chain(names.iter().map(OsString::as_os_str)).collect()
}

impl FileNode {
    fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
        if content.len() < offset + bytes.len() {
            content.resize(offset + bytes.len(), 0);
        }
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn after_crash(&self, random: &mut Random) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mut order = self.changes.iter().collect::<Vec<_>>();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        for change in &order {
            match change {
                FileChange::Length(bytes) if random.below(2) == 0 => content.resize(*bytes, 0),
                FileChange::Write { offset, bytes } => match random.below(3) {
                    0 => Self::write(&mut content, *offset, bytes),
                    1 => Self::write_some(&mut content, *offset, bytes, random),
                    _ => {}
                },
                FileChange::Length(_) => {}
            }
        }
        // The length may be there before the bytes are.
        if !order.is_empty() && random.below(2) == 0 {
            content.resize(self.content.len(), 0);
        }
        content
    }

    /// Some sectors of a write arrive, some do not, and some are torn in two.
    fn write_some(content: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Random) {
        let mut from = 0;
        while from < bytes.len() {
            let next = (((offset + from) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset).min(bytes.len());
            let part = match random.below(4) {
                0 => from..from,
                1 => from..from + random.below(next - from),
                2 => from + random.below(next - from)..next,
                _ => from..next,
            };
            if !part.is_empty() {
                Self::write(content, offset + part.start, &bytes[part]);
            }
            from = next;
        }
    }
}

impl Volume {
    fn child(&self, folder: NodeId, name: &OsStr) -> io::Result<NodeId> {
        self.entries(folder)?.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn entries(&self, folder: NodeId) -> io::Result<&Entries> {
        match &self.nodes[folder] {
            Node::Folder(folder) => Ok(&folder.entries),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// A folder's entries, which change now.
    fn changing(&mut self, folder: NodeId) -> io::Result<&mut Entries> {
        self.time += 1;
        match &mut self.nodes[folder] {
            Node::Folder(folder) => {
                folder.modified = self.time;
                Ok(&mut folder.entries)
            }
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn node(&self, names: &[OsString]) -> io::Result<NodeId> {
        names.iter().try_fold(0, |folder, name| self.child(folder, name))
    }

    fn is_folder(&self, node: NodeId) -> bool {
        matches!(self.nodes[node], Node::Folder(_))
    }

    /// The folder that a path is in, and its name there.
    fn parent(&self, path: &Path) -> io::Result<(NodeId, OsString)> {
        let mut names = names(path);
        let name = names.pop().ok_or(ErrorKind::InvalidInput)?;
        let folder = self.node(&names)?;
        self.entries(folder)?;
        Ok((folder, name))
    }

    fn change(&mut self, gone: Option<(NodeId, OsString)>, come: Option<(NodeId, OsString, NodeId)>) -> io::Result<()> {
        if let Some((folder, name)) = &gone {
            self.changing(*folder)?.remove(name);
        }
        if let Some((folder, name, node)) = &come {
            self.changing(*folder)?.insert(name.clone(), *node);
        }
        self.changes.push(EntryChange { gone, come, is_synced: false });
        Ok(())
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Puts a file or an empty folder at a path, with the folders above it, all of it synced.
    fn put(&mut self, names: &[OsString], node: Node) {
        let mut at = 0;
        for name in names {
            at = match self.child(at, name) {
                Ok(child) => child,
                Err(_) => {
                    let child = self.add(Node::Folder(FolderNode::default()));
                    if let Node::Folder(folder) = &mut self.nodes[at] {
                        folder.entries.insert(name.clone(), child);
                    }
                    self.synced.entry(at).or_default().insert(name.clone(), child);
                    child
                }
            };
        }
        self.nodes[at] = node;
    }

    /// Calls `found` with all that is in a folder and below, whose entries are what `entries` says; a folder before
    /// what is in it.
    fn visit<'a>(
        &'a self,
        folder: NodeId,
        above: &[OsString],
        entries: &impl Fn(NodeId, &'a FolderNode) -> Option<&'a Entries>,
        found: &mut impl FnMut(&[OsString], &'a Node),
    ) {
        let Node::Folder(own) = &self.nodes[folder] else { return };
        for (name, node) in entries(folder, own).into_iter().flatten() {
            let names = above.iter().chain([name]).cloned().collect::<Vec<_>>();
            found(&names, &self.nodes[*node]);
            self.visit(*node, &names, entries, found);
        }
    }
}

impl Disk for CrashDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut volume = self.0.lock();
        let (folder, name) = volume.parent(path)?;
        let node = match (volume.child(folder, &name), mode.access) {
            (Ok(_), Access::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (Ok(node), _) if volume.is_folder(node) => return Err(ErrorKind::IsADirectory.into()),
            (Ok(node), _) => node,
            (Err(_), Access::CreateNew) => {
                let node = volume.add(Node::File(FileNode::default()));
                volume.change(None, Some((folder, name, node)))?;
                node
            }
            (Err(error), _) => return Err(error),
        };
        let file = CrashFile { disk: self.clone(), node, is_direct: mode.is_direct, access: mode.access };
        Ok(Arc::new(file))
    }

    fn meta(&self, path: &Path) -> io::Result<FileMeta> {
        let volume = self.0.lock();
        let node = volume.node(&names(path))?;
        let (kind, bytes, modified) = match &volume.nodes[node] {
            Node::Folder(folder) => (FileKind::Folder, 0, folder.modified),
            Node::File(file) => (FileKind::File, file.content.len() as u64, file.modified),
        };
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(modified);
        Ok(FileMeta { path: path.to_owned(), kind, bytes, modified })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let volume = self.0.lock();
        let node = volume.node(&names(folder))?;
        Ok(volume.entries(node)?.keys().map(|name| folder.join(name)).collect())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let (folder, name) = volume.parent(path)?;
        if volume.child(folder, &name).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = volume.add(Node::Folder(FolderNode::default()));
        volume.change(None, Some((folder, name, node)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let (from_folder, from_name) = volume.parent(from)?;
        let (to_folder, to_name) = volume.parent(to)?;
        let node = volume.child(from_folder, &from_name)?;
        if let Ok(there) = volume.child(to_folder, &to_name) {
            match (volume.is_folder(node), volume.is_folder(there)) {
                (false, true) => return Err(ErrorKind::IsADirectory.into()),
                (true, false) => return Err(ErrorKind::NotADirectory.into()),
                (true, true) if !volume.entries(there)?.is_empty() => return Err(ErrorKind::DirectoryNotEmpty.into()),
                _ => {}
            }
        }
        volume.change(Some((from_folder, from_name)), Some((to_folder, to_name, node)))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let (from_folder, from_name) = volume.parent(from)?;
        let (to_folder, to_name) = volume.parent(to)?;
        let node = volume.child(from_folder, &from_name)?;
        if volume.is_folder(node) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        if volume.child(to_folder, &to_name).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        volume.change(None, Some((to_folder, to_name, node)))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let (folder, name) = volume.parent(path)?;
        if volume.is_folder(volume.child(folder, &name)?) {
            return Err(ErrorKind::IsADirectory.into());
        }
        volume.change(Some((folder, name)), None)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let (folder, name) = volume.parent(path)?;
        if !volume.entries(volume.child(folder, &name)?)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        volume.change(Some((folder, name)), None)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut volume = self.0.lock();
        let node = volume.node(&names(folder))?;
        volume.entries(node)?;
        let volume = &mut *volume;
        volume.changes.iter_mut().filter(|change| change.folder() == Some(node)).for_each(|c| c.is_synced = true);
        let first = volume.changes.iter().position(|change| !change.is_synced).unwrap_or(volume.changes.len());
        volume.changes.drain(..first).for_each(|change| change.apply(&mut volume.synced));
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let names = names(path);
        self.0.lock().node(&names)?;
        Ok(path_of(&names))
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        let volume = self.0.lock();
        volume.node(&names(from))?;
        volume.node(&names(to)).map(|_| ())
    }
}

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    node: NodeId,
    is_direct: bool,
    access: Access,
}

impl CrashFile {
    fn with<T>(&self, body: impl FnOnce(&mut FileNode) -> T) -> T {
        match &mut self.disk.0.lock().nodes[self.node] {
            Node::File(file) => body(file),
            Node::Folder(_) => unreachable!("only files are opened"),
        }
    }

    fn change(&self, change: FileChange) -> io::Result<()> {
        if self.access == Access::Read {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let mut volume = self.disk.0.lock();
        volume.time += 1;
        let time = volume.time;
        if let Node::File(file) = &mut volume.nodes[self.node] {
            match &change {
                FileChange::Write { offset, bytes } => FileNode::write(&mut file.content, *offset, bytes),
                FileChange::Length(bytes) => file.content.resize(*bytes, 0),
            }
            file.changes.push(change);
            file.modified = time;
        }
        Ok(())
    }

    /// What direct I/O demands of an offset and a length.
    fn check(&self, offset: u64, bytes: usize) -> io::Result<()> {
        let is_aligned = offset.is_multiple_of(PAGE_BYTES as u64) && bytes.is_multiple_of(PAGE_BYTES);
        if self.is_direct && !is_aligned { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(()) }
    }
}

impl DiskFile for CrashFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.with(|file| file.content.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(offset, buffer.len())?;
        self.with(|file| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(file.content.len());
            let bytes = buffer.len().min(file.content.len() - from);
            buffer[..bytes].copy_from_slice(&file.content[from..from + bytes]);
            Ok(bytes)
        })
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>();
        self.check(offset, bytes.len())?;
        let offset = usize::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        let count = bytes.len();
        self.change(FileChange::Write { offset, bytes })?;
        Ok(count)
    }

    fn preallocate(&self, _from: u64, to: u64) -> io::Result<()> {
        self.truncate(to)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        self.change(FileChange::Length(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|file| {
            file.synced.clone_from(&file.content);
            file.changes.clear();
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn write(disk: &CrashDisk, path: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
        let file = disk.open(Path::new(path), OpenMode::CREATE_NEW).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    /// What is found in some hundred crashes: the files of each, as text.
    fn found(disk: &CrashDisk) -> BTreeSet<String> {
        let text = |disk: CrashDisk| {
            let files = disk.files().into_iter();
            let files = files.map(|(path, bytes)| format!("{}={}", path.display(), String::from_utf8_lossy(&bytes)));
            files.collect::<Vec<_>>().join(" ")
        };
        (0..300).map(|seed| text(disk.crash(seed))).collect()
    }

    fn texts<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
        texts.map(str::to_owned).into()
    }

    #[test]
    fn bytes_need_a_sync_and_names_one_of_their_folder() {
        let disk = CrashDisk::default();
        let file = write(&disk, "/a", b"x");
        assert_eq!(found(&disk), texts(["", "/a=", "/a=\0", "/a=x"]));
        file.sync().unwrap();
        assert_eq!(found(&disk), texts(["", "/a=x"]));
        disk.sync_folder(Path::new("/")).unwrap();
        assert_eq!(found(&disk), texts(["/a=x"]));
        // A folder's own name is in the folder above it.
        disk.create_folder(Path::new("/f")).unwrap();
        write(&disk, "/f/b", b"").sync().unwrap();
        disk.sync_folder(Path::new("/f")).unwrap();
        assert_eq!(found(&disk), texts(["/a=x", "/a=x /f/b="]));
        disk.sync_folder(Path::new("/")).unwrap();
        assert_eq!(found(&disk), texts(["/a=x /f/b="]));
        disk.remove_file(Path::new("/a")).unwrap();
        assert_eq!(found(&disk), texts(["/a=x /f/b=", "/f/b="]));
    }

    #[test]
    fn a_rename_is_whole_or_undone() {
        let disk = CrashDisk::holding([("/f/old", "1"), ("/staged", "2")]);
        disk.rename(Path::new("/staged"), Path::new("/f/old")).unwrap();
        assert_eq!(disk.files().keys().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(), ["/f/old"]);
        assert_eq!(found(&disk), texts(["/f/old=1 /staged=2", "/f/old=2"]));
        disk.sync_folder(Path::new("/")).unwrap();
        assert_eq!(found(&disk).len(), 2, "the folder that it came to counts");
        disk.sync_folder(Path::new("/f")).unwrap();
        assert_eq!(found(&disk), texts(["/f/old=2"]));
    }

    #[test]
    fn writes_are_lost_torn_and_in_any_order() {
        let disk = CrashDisk::holding([("/a", vec![b'0'; 1024])]);
        let file = disk.open(Path::new("/a"), OpenMode::WRITE).unwrap();
        file.write_all_at(&[b'1'; 1024], 0).unwrap();
        file.write_all_at(&[b'2'; 1024], 0).unwrap();
        let crashes = (0..1000).map(|seed| disk.crash(seed).files().remove(Path::new("/a")).unwrap());
        let crashes = crashes.collect::<BTreeSet<_>>();
        for byte in [b'0', b'1', b'2'] {
            assert!(crashes.contains(&vec![byte; 1024]), "all of one write, {byte}");
        }
        let is_torn = |bytes: &Vec<u8>| bytes[..512].iter().any(|byte| *byte != bytes[0]);
        assert!(crashes.iter().any(is_torn));
        let is_cut_between_sectors = |bytes: &Vec<u8>| {
            !is_torn(bytes) && bytes[512..].iter().all(|byte| *byte == bytes[512]) && bytes[0] != bytes[512]
        };
        assert!(crashes.iter().any(is_cut_between_sectors));
        file.sync().unwrap();
        file.truncate(3).unwrap();
        assert_eq!(found(&disk), texts(["/a=222", &format!("/a={}", "2".repeat(1024))]));
        assert_eq!(disk.crash(7).files(), disk.crash(7).files(), "a seed is a crash");
    }

    #[test]
    fn a_text_is_read_whole_or_not() {
        let disk = CrashDisk::holding([("/f/a", "zwölf".as_bytes()), ("/f/b", b"\xff"), ("/f/c", b"")]);
        let read = |path: &str| disk.read_text(Path::new(path)).map_err(|error| error.kind());
        assert_eq!(read("/f/a"), Ok("zwölf".to_owned()));
        assert_eq!(read("/f/b"), Err(ErrorKind::InvalidData));
        assert_eq!(read("/f/c"), Ok(String::new()));
        assert_eq!(read("/f"), Err(ErrorKind::IsADirectory));
        assert_eq!(read("/f/d"), Err(ErrorKind::NotFound));
        let is_file = |path: &str| disk.is_file(Path::new(path));
        assert!(is_file("/f/a") && !is_file("/f") && !is_file("/f/d"));
    }

    #[test]
    fn it_refuses_what_a_file_system_refuses() {
        let disk = CrashDisk::holding([("/f/a", "1")]);
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        let open = |path: &str, mode| disk.open(Path::new(path), mode).map(drop);
        assert_eq!(kind(open("/f", OpenMode::READ)), ErrorKind::IsADirectory);
        assert_eq!(kind(open("/g", OpenMode::WRITE)), ErrorKind::NotFound);
        assert_eq!(kind(open("/f/a", OpenMode::CREATE_NEW)), ErrorKind::AlreadyExists);
        assert_eq!(kind(open("/f/a/b", OpenMode::CREATE_NEW)), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.remove_folder(Path::new("/f"))), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(disk.remove_file(Path::new("/f"))), ErrorKind::IsADirectory);
        assert_eq!(kind(disk.rename(Path::new("/f/a"), Path::new("/f"))), ErrorKind::IsADirectory);
        let read = disk.open(Path::new("f/./a"), OpenMode::READ).unwrap();
        assert_eq!(read.write_all_at(b"2", 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
        let direct = disk.open(Path::new("/f/a"), OpenMode::WRITE.direct()).unwrap();
        assert_eq!(direct.write_all_at(b"2", 0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        disk.remove_tree(Path::new("/f")).unwrap();
        assert!(disk.files().is_empty() && !disk.is_folder(Path::new("/f")));
    }
}
