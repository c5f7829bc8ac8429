package fsck

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// check is a run over one directory.
type check struct {
	opts   Options
	fs     disk.FS
	dir    string
	base   string // name of the directory in reports
	report *Report

	manifest format.Manifest
	rebuilt  bool // the manifest was lost: it is made from the segments
	reheaded bool // only the manifest's first line is damaged
	files    []*file
	segments []*segment // by revision, those that make up the log

	// What scanning has found.
	newest     map[string]place
	byRevision map[int64]string // of newest, created on first use
	resources  map[string]bool
	highest    int64 // revision that was seen anywhere
	millis     int64
	gaps       []*gap
	superseded map[int64]successor // lost revisions of which a whole successor is known
	unknown    []int64             // where segments begin that are left out
	tailLost   bool                // the last writes may be lost
	// unknownUpTo is the revision up to which segments may be missing in front; 0: none is.
	unknownUpTo int64
}

// file is a file that looks like a segment's.
type file struct {
	name   string
	disk   disk.File
	size   int64
	header []byte              // as it is
	entry  format.SegmentEntry // by the header; its kind is "" if that is damaged
	id     format.StoreID
	used   bool
}

func (c *check) close() error {
	var err error
	for _, f := range c.files {
		if f.disk != nil {
			err = errors.Join(err, f.disk.Close())
			f.disk = nil
		}
	}
	return err
}

// look opens the files and finds out which of them make up the log.
func (c *check) look() error {
	names, err := c.fs.Dir().Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case format.IsSegmentName(name):
			if err := c.openFile(name); err != nil {
				return err
			}
		case name == format.ManifestName, name == format.ManifestTemp, name == disk.LockName, name == "lost+found":
		default:
			c.note(Problem{
				File: name, Offset: -1, Severity: Note, Found: "it is not a file of the log; a repair does not change it",
				Repair: "move it elsewhere",
			})
		}
	}
	if err := c.readManifest(); err != nil {
		return err
	}
	if c.hopeless() {
		return nil
	}
	if !c.rebuilt {
		c.list()
	}
	if c.rebuilt { // it was, or list found it to be older than the segments
		c.rebuild()
	}
	return nil
}

func (c *check) openFile(name string) error {
	d, size, err := c.fs.Open(name)
	if err != nil {
		return err
	}
	f := &file{name: name, disk: d, size: size, header: make([]byte, format.SegmentHeaderBytes)}
	c.files = append(c.files, f)
	n, err := d.ReadAt(f.header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f.header = f.header[:n]
	f.entry, f.id = parseHeader(f.header)
	if err := format.CheckSegmentFormat(f.header); err != nil {
		c.newer(name, err)
	}
	return nil
}

// newer notes a file of a newer format.
func (c *check) newer(name string, found error) {
	c.note(Problem{File: name, Found: found.Error(), Severity: Newer, Repair: "use the version of gapless that wrote it"})
}

// hopeless reports whether nothing can be said about the records.
func (c *check) hopeless() bool {
	worst := c.report.Worst()
	return worst == Beyond || worst == Newer
}

// parseHeader reads the header of a segment without knowing what it should be.
func parseHeader(b []byte) (format.SegmentEntry, format.StoreID) {
	if len(b) < format.SegmentHeaderBytes || string(b[:8]) != format.SegmentMagic {
		return format.SegmentEntry{}, format.StoreID{}
	}
	e := format.SegmentEntry{
		ID: format.SegmentHeaderID(b), First: int64(binary.LittleEndian.Uint64(b[32:])), Kind: format.KindLog,
	}
	if b[44] == format.KindBase[0] {
		e.Kind = format.KindBase
	}
	id := format.StoreID(b[16:32])
	if _, err := format.CheckSegmentHeader(b, e, id); err != nil || e.First < 1 {
		return format.SegmentEntry{}, format.StoreID{}
	}
	return e, id
}

// readManifest reads the manifest, or says why it has to be rebuilt.
func (c *check) readManifest() error {
	d, size, err := c.fs.Open(format.ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		if len(c.files) > 0 {
			c.lostManifest("it is missing", -1)
		}
		return nil
	}
	if err != nil {
		return err
	}
	var b []byte
	if size <= format.MaxManifestBytes {
		b = make([]byte, size)
		n, err := d.ReadAt(b, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return errors.Join(err, d.Close())
		}
		b = b[:n]
	}
	if err := d.Close(); err != nil {
		return err
	}
	m, err := format.DecodeManifest(b)
	if errors.Is(err, format.ErrNewerManifest) {
		c.newer(format.ManifestName, err)
		return nil
	}
	if err == nil {
		c.manifest = m
		return nil
	}
	if fixed, ok := rehead(b); ok {
		if m, again := format.DecodeManifest(fixed); again == nil {
			c.manifest, c.reheaded = m, true
			c.note(Problem{
				File: format.ManifestName, Offset: 0, Found: "its first line is damaged: " + err.Error(), Severity: Repairable,
				Repair: "the line is restored; a checksum confirms the rest",
			})
			return nil
		}
	}
	c.lostManifest(err.Error(), 0)
	return nil
}

// rehead corrects the first line of a manifest if one byte of it is wrong and the
// rest is what its checksum says. The format's number is not guessed.
func rehead(b []byte) (fixed []byte, ok bool) {
	empty, err := format.EncodeManifest(format.Manifest{})
	if err != nil {
		return nil, false
	}
	length := bytes.IndexByte(empty, '\n')
	if len(b) <= length {
		return nil, false
	}
	body := b[length+1:]
	version := string(b[len("gapless-revlog "):][:1])
	line := fmt.Sprintf("gapless-revlog %s %08x\n", version, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	wrong := 0
	for i := range len(line) {
		if line[i] != b[i] {
			wrong++
		}
	}
	return append([]byte(line), body...), wrong == 1
}

func (c *check) lostManifest(why string, offset int64) {
	c.rebuilt = true
	p := Problem{
		File: format.ManifestName, Offset: offset, Found: why, Severity: Repairable,
		Repair: "it is rebuilt from the segments; it is not known whether there were others, and which history was compacted, " +
			"so all of it expires",
	}
	if !slices.ContainsFunc(c.files, func(f *file) bool { return f.entry.Kind != "" }) {
		p.Severity, p.Repair = Beyond, "no segment has a readable header; restore the directory from a backup"
	}
	c.note(p)
}

// list finds the files of the segments that the manifest lists.
func (c *check) list() {
	id := c.manifest.ID()
	for _, e := range c.manifest.Segments {
		s := &segment{entry: e, listed: true, id: id}
		named := slices.IndexFunc(c.files, func(f *file) bool { return f.name == e.Name() })
		s.file = c.holder(e, id)
		switch {
		case s.file != nil && s.file.name != e.Name():
			c.note(Problem{
				File: s.file.name, Offset: 0, Severity: Repairable,
				Found: "it contains the segment " + e.Name(), Repair: "its records are kept",
			})
			s.bad = true
		case s.file == nil && named >= 0 && c.files[named].entry.Kind == "":
			s.file, s.headless = c.files[named], true
		}
		if s.file != nil {
			s.file.used = true
		}
		c.segments = append(c.segments, s)
	}
	for _, f := range c.files {
		if !f.used {
			c.unlisted(f, id)
		}
	}
}

// holder returns the file with the header of a segment, by preference the one that
// has its name.
func (c *check) holder(e format.SegmentEntry, id format.StoreID) *file {
	var found *file
	for _, f := range c.files {
		if f.id == id && f.entry.ID == e.ID && f.entry.First == e.First && f.entry.Kind == e.Kind &&
			(found == nil || f.name == e.Name()) {
			found = f
		}
	}
	return found
}

// unlisted judges a segment's file that the manifest does not list.
func (c *check) unlisted(f *file, id format.StoreID) {
	newer := f.entry.Kind == format.KindLog && f.id == id && f.entry.ID >= c.manifest.NextSegment && c.hasFrame(f)
	if !newer {
		c.note(Problem{
			File: f.name, Offset: -1, Severity: Note, Found: "the MANIFEST does not list it", Repair: "the next start removes it",
		})
		return
	}
	c.rebuilt = true
	c.note(Problem{
		File: f.name, Offset: -1, Severity: Repairable,
		Found: "it is newer than the MANIFEST, which must be an old copy", Repair: "the MANIFEST is rebuilt from the segments",
	})
}

func (c *check) hasFrame(f *file) bool {
	b := make([]byte, format.FrameHeaderBytes)
	n, err := f.disk.ReadAt(b, format.SegmentHeaderBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	_, err = format.DecodeFrame(b[:n], format.SegmentSeed(f.header), format.SegmentHeaderBytes)
	return err == nil
}

// rebuild makes the list of segments from their headers: of the log with the most
// files, all base segments, and the log segments. Files of an interrupted compaction
// among them do no harm: what they hold is older than, or the same as, the rest. If
// log segments are missing between them that is not so, which scanAll finds out.
func (c *check) rebuild() {
	votes := map[format.StoreID]int{}
	var id format.StoreID
	for _, f := range c.files {
		if f.entry.Kind != "" {
			if votes[f.id]++; votes[f.id] > votes[id] {
				id = f.id
			}
		}
	}
	old := c.manifest
	c.segments = nil
	c.manifest.UUID, c.manifest.NextSegment = hex.EncodeToString(id[:]), old.NextSegment
	for _, f := range c.files {
		f.used = f.entry.Kind != "" && f.id == id
		if !f.used {
			c.leaveOut(f)
			continue
		}
		e := f.entry
		e.Last, e.End = e.First-1, format.SegmentHeaderBytes
		c.manifest.NextSegment = max(c.manifest.NextSegment, e.ID+1)
		c.segments = append(c.segments, &segment{entry: e, file: f, id: id})
	}
	slices.SortFunc(c.segments, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.entry.Kind, b.entry.Kind), cmp.Compare(a.entry.First, b.entry.First),
			cmp.Compare(a.entry.ID, b.entry.ID))
	})
	if len(c.segments) > 0 {
		c.manifest.Base = c.segments[0].entry.First - 1
	}
	for _, s := range c.segments {
		c.manifest.Base = min(c.manifest.Base, s.entry.First-1)
	}
}

// leaveOut notes a segment of which neither the header nor a manifest tells what it
// was. Whatever was written since the revision in its name may have been in it.
func (c *check) leaveOut(f *file) {
	p := Problem{
		File: f.name, Offset: 0, Severity: Repairable, Found: "its header is damaged or belongs to another log",
		Repair: "its records are dropped",
	}
	if f.entry.Kind == "" {
		from := int64(1)
		if _, err := fmt.Sscanf(f.name, "seg-%x.log", &from); err != nil || from < 1 || from > format.MaxRevision {
			from = 1
		}
		c.unknown = append(c.unknown, from)
		c.highest = max(c.highest, from)
	}
	c.note(p)
}
