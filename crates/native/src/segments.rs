//! The segments of a database and the key files of its indexes: which rows and keys move into them, and when a file
//! goes.
//!
//! A checkpoint writes rows that are many, or lie badly, into segments, and keys that are many into key files, and the
//! image refers to them. A statement that brings very many rows writes segments of its own ([`RowStore`]), and its
//! entry in the log refers to them. A file to which neither the newest image nor a log behind it refers, and which
//! nobody reads any more, is removed after the next image. Segments and key files have numbers from one sequence.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::journal::RowStore;
use diligence_catalog::{KeyStore, MovedKeys, NativeTable, Piece, PieceRows, StoredPiece};
use diligence_storage::BufferPool;
use diligence_storage::key_file::{KEY_FILE_ENDING, KeyFile, KeyFileWriter};
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::{
    CLUSTER_ROWS_MAX, FormatChoice, Seal, Segment, SegmentFormat, SegmentWriter, is_storable,
};
use parking_lot::Mutex;

use crate::directories::Directories;
use crate::files::failed;

/// The folder's part for segments.
pub(crate) const FOLDER: &str = "segments";
/// Bytes of rows that make a cluster, at most.
const CLUSTER_BYTES: usize = 16 << 20;
/// Clusters of one segment, at most.
const CLUSTERS_MAX: usize = 64;
/// Rows that are put in the order of a clustering key at once, about: those of so many clusters, or so many bytes.
const SORTED_CLUSTERS: usize = 16;
const SORTED_BYTES: usize = 64 << 20;
/// Keys of an index in memory that a checkpoint moves to a file, at least: with fewer, a database is opened at once.
const KEYS_MIN: usize = 1 << 16;
/// A cluster is written anew when more than one of so many of its rows is gone.
const DELETED_PART: usize = 5;

/// The name of a segment's file.
pub(crate) fn file_name(number: u64, format: SegmentFormat) -> String {
    format!("{number:08}.{}", format.ending())
}

/// The name of a key file.
pub(crate) fn key_file_name(number: u64) -> String {
    format!("{number:08}.{KEY_FILE_ENDING}")
}

/// The segments of an open database. Used from any thread.
pub struct Segments {
    folder: PathBuf,
    directories: Directories,
    disk: Arc<dyn Disk>,
    known: Mutex<Known>,
    sizes: SegmentSizes,
    /// Of those that are written.
    format: Arc<FormatChoice>,
    buffer: Option<Arc<BufferPool>>,
    /// How many key files have been written, and how many of them an image knows or can do without.
    keys_written: AtomicU64,
    keys_noted: AtomicU64,
}

/// From when on a cluster is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wear {
    /// When any of its rows is gone.
    Any,
    /// When more than one in [`DELETED_PART`] is.
    Much,
}

/// How many rows segments have.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSizes {
    /// Rows of a table in memory that a checkpoint moves to a segment, at least.
    pub rows_min: usize,
    /// Rows of a cluster, at most; a statement that brings more of them writes segments itself.
    pub cluster_rows: usize,
    /// Keys of an index in memory that a checkpoint moves to a file, at least.
    pub keys_min: usize,
}

impl Default for SegmentSizes {
    fn default() -> Self {
        Self { rows_min: CLUSTER_ROWS_MAX / 2, cluster_rows: CLUSTER_ROWS_MAX, keys_min: KEYS_MIN }
    }
}

#[derive(Default)]
struct Known {
    /// The number of the next segment.
    next: u64,
    /// Those that were opened, with the bytes of their files.
    opened: HashMap<u64, (Opened, u64)>,
    /// Those that are written, or were given up.
    written: HashSet<u64>,
}

impl Known {
    /// The number of a file that is begun.
    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.written.insert(number);
        number
    }
}

/// What was opened, as long as somebody has it.
enum Opened {
    Segment(Weak<Segment>),
    Keys(Weak<KeyFile>),
}

impl Opened {
    /// Whether somebody has it.
    fn is_used(&self) -> bool {
        match self {
            Self::Segment(segment) => segment.strong_count() > 0,
            Self::Keys(file) => file.strong_count() > 0,
        }
    }

    fn segment(&self) -> Option<Arc<Segment>> {
        match self {
            Self::Segment(segment) => segment.upgrade(),
            Self::Keys(_) => None,
        }
    }

    fn keys(&self) -> Option<Arc<KeyFile>> {
        match self {
            Self::Segment(_) => None,
            Self::Keys(file) => file.upgrade(),
        }
    }
}

impl Segments {
    /// Those in a database's folder, and in directories of other disks; the folder's part for them is made if it is not
    /// there. Fails with kind `File` if it cannot be read or made, or a directory is not there.
    pub fn open(
        database: &Path,
        disk: Arc<dyn Disk>,
        sizes: SegmentSizes,
        format: Arc<FormatChoice>,
        buffer: Option<Arc<BufferPool>>,
    ) -> Result<Self> {
        let folder = database.join(FOLDER);
        if !disk.is_folder(&folder) {
            let made = disk.create_folder(&folder).and_then(|()| disk.sync_folder(database));
            made.map_err(|error| failed(&folder, &error))?;
        }
        let segments = Self::there(database, disk, sizes, format, buffer)?;
        segments.known.lock().next = segments.on_disk()?.last().map_or(1, |last| last + 1);
        Ok(segments)
    }

    /// Those that are in a database's folder and in its other directories, to be read. Fails with kind `File` if one of
    /// these is not there.
    pub fn there(
        database: &Path,
        disk: Arc<dyn Disk>,
        sizes: SegmentSizes,
        format: Arc<FormatChoice>,
        buffer: Option<Arc<BufferPool>>,
    ) -> Result<Self> {
        let folder = database.join(FOLDER);
        let directories = Directories::open(database, folder.clone(), disk.clone())?;
        let (keys_written, keys_noted) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { folder, directories, disk, known: Mutex::default(), sizes, format, buffer, keys_written, keys_noted })
    }

    /// Where the file of a number is, whatever its format, and in whatever directory.
    pub fn found(&self, number: u64) -> PathBuf {
        let [own, parquet] = [SegmentFormat::Diligence, SegmentFormat::Parquet].map(|format| file_name(number, format));
        let names = [own, parquet, key_file_name(number)];
        let paths =
            self.directories.all().into_iter().flat_map(|folder| names.each_ref().map(|name| folder.join(name)));
        let found = paths.into_iter().find(|path| self.disk.meta(path).is_ok());
        found.unwrap_or_else(|| self.folder.join(&names[1]))
    }

    /// The numbers of all files, in order.
    fn on_disk(&self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for folder in self.directories.all() {
            let entries = self.disk.list(&folder).map_err(|error| failed(&folder, &error))?;
            numbers.extend(entries.iter().filter_map(|path| path.file_stem()?.to_str()?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The directories of other disks into which segments are written, beside the database's folder.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.directories.used()
    }

    /// Other directories from now on, as [`Store::set_directories`](crate::Store::set_directories) says.
    pub fn set_directories(&self, directories: &[PathBuf]) -> Result<()> {
        self.directories.set(directories)
    }

    /// The segment of a number. Fails with kind `File` if its file is not there or cannot be read, with code XX001 if
    /// it is not what was written.
    pub fn get(&self, number: u64, seal: Seal) -> Result<Arc<Segment>> {
        if let Some(segment) = self.known.lock().opened.get(&number).and_then(|(opened, _)| opened.segment()) {
            return Ok(segment);
        }
        let segment = Segment::open(&self.disk, &self.found(number), number, seal)?;
        self.remember(&segment);
        Ok(segment)
    }

    fn remember(&self, segment: &Arc<Segment>) {
        if let Some(buffer) = &self.buffer {
            segment.read_through(buffer);
        }
        let known = (Opened::Segment(Arc::downgrade(segment)), segment.bytes());
        self.known.lock().opened.insert(segment.number(), known);
    }

    /// The key file of a number, with what its end says. Fails as [`get`](Self::get) does.
    pub fn keys(&self, number: u64, seal: Seal) -> Result<(Arc<KeyFile>, Bytes)> {
        let (file, said) = KeyFile::open(&self.disk, &self.found(number), number, seal)?;
        // Whether somebody has the file is known of one only.
        if let Some(there) = self.known.lock().opened.get(&number).and_then(|(opened, _)| opened.keys()) {
            return Ok((there, said));
        }
        self.remember_keys(&file);
        Ok((file, said))
    }

    fn remember_keys(&self, file: &Arc<KeyFile>) {
        if let Some(buffer) = &self.buffer {
            file.read_through(buffer);
        }
        let known = (Opened::Keys(Arc::downgrade(file)), file.bytes());
        self.known.lock().opened.insert(file.number(), known);
    }

    /// Writes keys of a table's indexes to files, where they are many. Fails with kind `File` if they cannot be written
    /// or read, and `Resource` if memory is short.
    pub fn store_keys(&self, table: &NativeTable) -> Result<MovedKeys> {
        table.move_keys(self, self.sizes.keys_min)
    }

    /// How many key files have been written since the database was opened.
    pub fn keys_written(&self) -> u64 {
        self.keys_written.load(Ordering::Relaxed)
    }

    /// An image knows what there was when so many key files had been written.
    pub fn note_keys(&self, written: u64) {
        self.keys_noted.store(written, Ordering::Relaxed);
    }

    /// Whether a statement has written key files of which no image knows: without one, they are made again when the
    /// database is opened.
    pub fn has_new_keys(&self) -> bool {
        self.keys_written() != self.keys_noted.load(Ordering::Relaxed)
    }

    /// Has keys that [`store_keys`](Self::store_keys) will write stay as they are until then.
    pub fn fix_keys(&self, table: &NativeTable) {
        table.fix_keys(self.sizes.keys_min);
    }

    /// The numbers of all that were opened.
    pub fn opened(&self) -> HashSet<u64> {
        self.known.lock().opened.keys().copied().collect()
    }

    /// Bytes of files whose segments nobody has any more, but for those that are kept.
    pub fn unused_bytes(&self, is_kept: impl Fn(u64) -> bool) -> u64 {
        let known = self.known.lock();
        let unused = known.opened.iter().filter(|(number, (opened, _))| !opened.is_used() && !is_kept(**number));
        unused.map(|(_, (_, bytes))| bytes).sum()
    }

    /// Removes the files of all segments that nobody has or writes, but for those that are kept. What cannot be removed
    /// now is removed the next time. Fails with kind `File` if the folder cannot be read.
    pub fn sweep(&self, is_kept: impl Fn(u64) -> bool) -> Result<()> {
        for number in self.on_disk()? {
            // Nobody gets one that nobody has: its number is in no image, and in no log.
            let mut known = self.known.lock();
            let is_read = known.opened.get(&number).is_some_and(|(opened, _)| opened.is_used());
            if is_read || known.written.contains(&number) || number >= known.next || is_kept(number) {
                continue;
            }
            known.opened.remove(&number);
            let _ = self.disk.remove_file(&self.found(number));
        }
        self.directories.forget_left();
        Ok(())
    }

    /// Has segments, whose files are synced, be found after a crash.
    pub fn sync(&self) -> Result<()> {
        let sync = |folder: PathBuf| self.disk.sync_folder(&folder).map_err(|error| failed(&folder, &error));
        self.directories.all().into_iter().try_for_each(sync)
    }

    /// Rows of a fragment of a table that move to a segment, at least.
    fn rows_min(&self, table: &NativeTable) -> usize {
        // Fragments have fewer rows than tables.
        let rows_min = self.sizes.rows_min / usize::from(table.placement().fragments());
        rows_min.max(self.sizes.rows_min.min(BATCH_ROWS_MAX))
    }

    /// Whether so many rows of a table would move to segments that they fill a cluster. Until they do, a change of
    /// several rows copies those beside them, so that it takes the longer the more there are.
    pub fn fills_cluster(&self, table: &NativeTable) -> bool {
        let rows_min = self.rows_min(table);
        let fragments = table.pieces().chunk_by(|left, right| left.fragment() == right.fragment());
        let rows =
            fragments.map(|pieces| pieces.iter().filter(|piece| is_in_memory(piece)).map(Piece::len).sum::<usize>());
        rows.filter(|rows| *rows >= rows_min).sum::<usize>() >= self.sizes.cluster_rows
            && table.schema().fields().iter().all(|field| is_storable(field.data_type()))
    }

    /// Writes the rows of a table that are better on disk, or elsewhere on it. Fails with kind `File` if they cannot be
    /// written.
    pub fn store(&self, table: &NativeTable, wear: Wear) -> Result<Vec<StoredPiece>> {
        if !table.schema().fields().iter().all(|field| is_storable(field.data_type())) {
            return Ok(Vec::new());
        }
        let mut moved = Moved::default();
        let rows_min = self.rows_min(table);
        for fragment in table.pieces().chunk_by(|left, right| left.fragment() == right.fragment()) {
            for run in runs(fragment, self.sizes.cluster_rows, wear) {
                let rows = run.iter().map(Piece::len).sum::<usize>();
                let bytes = run.iter().map(Piece::bytes_in_memory).sum::<usize>();
                // Small ones that are stored already gain nothing.
                let is_worn = |piece: &Piece| is_worn(piece, wear);
                let gains = run.len() > 1 || run.iter().any(is_worn) || run.iter().any(is_in_memory);
                let is_small = rows < rows_min && bytes < CLUSTER_BYTES;
                if !gains || is_small && !(wear == Wear::Any && run.iter().any(is_worn)) {
                    continue;
                }
                match table.placement().clustered() {
                    [] => {
                        moved.begin_run(run);
                        self.store_run(table, run, &mut moved)?;
                    }
                    _ => self.store_in_order(table, run, &mut moved)?,
                }
            }
            // A segment is of one fragment.
            self.end(&mut moved)?;
        }
        Ok(moved.pieces)
    }

    /// Writes the rows of pieces in the order of the table's clustering key, so many clusters at a time.
    fn store_in_order(&self, table: &NativeTable, run: &[Piece], moved: &mut Moved) -> Result<()> {
        let mut rest = run;
        while !rest.is_empty() {
            let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
            for piece in rest {
                let batch = piece.read()?;
                rows += batch.num_rows();
                bytes += batch.get_array_memory_size();
                batches.push(batch);
                if rows >= SORTED_CLUSTERS * self.sizes.cluster_rows || bytes >= SORTED_BYTES {
                    break;
                }
            }
            let (own, later) = rest.split_at(batches.len());
            rest = later;
            let numbers = own.iter().flat_map(Piece::live_numbers).collect::<Vec<_>>();
            let (rows, places) = table.placement().ordered(&batches)?;
            drop(batches);
            let numbers = places.into_iter().map(|place| numbers[place as usize]).collect::<Vec<_>>();
            moved.begin_run(own);
            let mut cluster = ClusterRows::default();
            self.cut(table, &rows, &numbers, &mut cluster, moved)?;
            self.put_rest(table, cluster, moved)?;
        }
        Ok(())
    }

    fn store_run(&self, table: &NativeTable, run: &[Piece], moved: &mut Moved) -> Result<()> {
        let mut cluster = ClusterRows::default();
        for piece in run {
            let numbers = piece.live_numbers().collect::<Vec<_>>();
            self.cut(table, &piece.read()?, &numbers, &mut cluster, moved)?;
        }
        self.put_rest(table, cluster, moved)
    }

    /// Adds rows to those of a cluster, and writes it whenever it is full.
    fn cut(
        &self,
        table: &NativeTable,
        rows: &RecordBatch,
        numbers: &[i64],
        cluster: &mut ClusterRows,
        moved: &mut Moved,
    ) -> Result<()> {
        let mut start = 0;
        while start < rows.num_rows() {
            // Rows of one large batch are added by parts, so that clusters are cut by their bytes as well.
            let room = (self.sizes.cluster_rows - cluster.numbers.len()).min(BATCH_ROWS_MAX);
            let count = room.min(rows.num_rows() - start);
            cluster.add(rows.slice(start, count), &numbers[start..start + count]);
            start += count;
            if cluster.numbers.len() == self.sizes.cluster_rows || cluster.bytes >= CLUSTER_BYTES {
                self.put(table, std::mem::take(cluster), moved)?;
            }
        }
        Ok(())
    }

    fn put_rest(&self, table: &NativeTable, cluster: ClusterRows, moved: &mut Moved) -> Result<()> {
        if cluster.numbers.is_empty() { Ok(()) } else { self.put(table, cluster, moved) }
    }

    fn put(&self, table: &NativeTable, rows: ClusterRows, moved: &mut Moved) -> Result<()> {
        if moved.writing.as_ref().is_some_and(|writing| writing.clusters.len() == CLUSTERS_MAX) {
            self.end(moved)?;
        }
        if moved.writing.is_none() {
            let writer = self.begin(table.schema(), &table.columns().ids, moved.fragment)?;
            moved.writing = Some(Writing { writer, clusters: Vec::new() });
        }
        let writing = moved.writing.as_mut().ok_or_else(|| Error::bug("no segment is written"))?;
        writing.writer.write_cluster(&rows.batches)?;
        writing.clusters.push((moved.run, RowNumbers::of(rows.numbers)));
        Ok(())
    }

    fn end(&self, moved: &mut Moved) -> Result<()> {
        let Some(Writing { writer, clusters }) = moved.writing.take() else { return Ok(()) };
        let (segment, fragment) = (self.ended(writer)?, moved.fragment);
        let piece =
            |(cluster, (run, numbers))| StoredPiece { segment: segment.clone(), cluster, numbers, fragment, run };
        moved.pieces.extend(clusters.into_iter().enumerate().map(piece));
        Ok(())
    }
}

impl Segments {
    /// Ends a segment; its folder is not synced. Fails with kind `File`.
    fn ended(&self, writer: SegmentWriter) -> Result<Arc<Segment>> {
        let segment = writer.finish()?;
        self.remember(&segment);
        self.known.lock().written.remove(&segment.number());
        Ok(segment)
    }
}

impl RowStore for Segments {
    fn begin(&self, columns: &Schema, ids: &[u32], fragment: u16) -> Result<SegmentWriter> {
        let number = self.known.lock().begin();
        let create = |path: &Path| SegmentWriter::create(&self.disk, path, number, columns, ids);
        let format = self.format.get().for_columns(columns);
        self.directories.make_file(fragment, &file_name(number, format), create)
    }

    fn cluster_rows(&self) -> usize {
        self.sizes.cluster_rows
    }

    fn finish(&self, writer: SegmentWriter) -> Result<Arc<Segment>> {
        let segment = self.ended(writer)?;
        self.sync()?;
        Ok(segment)
    }
}

impl KeyStore for Segments {
    fn begin_keys(&self) -> Result<KeyFileWriter> {
        let number = self.known.lock().begin();
        let create = |path: &Path| KeyFileWriter::create(&self.disk, path, number);
        self.directories.make_file(0, &key_file_name(number), create)
    }

    fn finish_keys(&self, file: &Arc<KeyFile>) -> Result<()> {
        self.remember_keys(file);
        self.known.lock().written.remove(&file.number());
        self.keys_written.fetch_add(1, Ordering::Relaxed);
        self.sync()
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segments({})", self.folder.display())
    }
}

/// Where rows of a table have moved.
#[derive(Default)]
struct Moved {
    pieces: Vec<StoredPiece>,
    writing: Option<Writing>,
    fragment: u16,
    /// How many runs there were.
    run: usize,
}

impl Moved {
    /// The rows of these pieces, all of one fragment, move now.
    fn begin_run(&mut self, pieces: &[Piece]) {
        self.run += 1;
        self.fragment = pieces.first().map_or(0, Piece::fragment);
    }
}

/// A segment that is written, with the runs that its clusters are of, and the numbers of their rows.
struct Writing {
    writer: SegmentWriter,
    clusters: Vec<(usize, RowNumbers)>,
}

/// Rows that become a cluster.
#[derive(Default)]
struct ClusterRows {
    batches: Vec<RecordBatch>,
    numbers: Vec<i64>,
    bytes: usize,
}

impl ClusterRows {
    fn add(&mut self, rows: RecordBatch, numbers: &[i64]) {
        // A slice counts for as much as its whole.
        let part = |column: &arrow::array::ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        self.bytes += rows.columns().iter().map(part).sum::<usize>();
        self.batches.push(rows);
        self.numbers.extend_from_slice(numbers);
    }
}

fn is_in_memory(piece: &Piece) -> bool {
    matches!(piece.rows(), PieceRows::Memory(_))
}

/// Whether so many rows of a cluster are gone.
fn is_worn(piece: &Piece, wear: Wear) -> bool {
    let gone = piece.total() - piece.len();
    let is_worn = match wear {
        Wear::Any => gone > 0,
        Wear::Much => gone * DELETED_PART > piece.total(),
    };
    is_worn && matches!(piece.rows(), PieceRows::Stored(_))
}

/// The pieces, next to each other, whose rows are to be written: those in memory, those of which so many are gone, and
/// small ones beside them.
fn runs(pieces: &[Piece], cluster_rows: usize, wear: Wear) -> impl Iterator<Item = &[Piece]> {
    let moves = move |piece: &Piece| is_in_memory(piece) || is_worn(piece, wear) || piece.len() * 4 < cluster_rows;
    pieces.chunk_by(move |left, right| moves(left) && moves(right)).filter(move |run| run.iter().all(moves))
}
