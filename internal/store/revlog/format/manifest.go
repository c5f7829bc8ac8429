package format

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

const (
	// ManifestName is the manifest's file.
	ManifestName = "MANIFEST"
	// ManifestTemp is the one that will replace it.
	ManifestTemp = "MANIFEST.tmp"
	// MaxManifestBytes is more than a manifest has, some 300 000 segments: a larger
	// one is neither written nor read.
	MaxManifestBytes = 64 << 20
	// MaxBaseRevision leaves 146 000 years of a million writes per second.
	MaxBaseRevision = 1 << 62

	// MaxRevision is the last revision that is assigned.
	MaxRevision = math.MaxInt64 - 1<<40

	manifestFormat = 2 // 1 has no Rest
	manifestMagic  = "gapless-revlog"
)

// What is wrong with the bytes of a manifest.
var (
	ErrBadManifest   = errors.New("bad manifest")
	ErrNewerManifest = errors.New("written by a newer version")
)

// StoreID tells the files of one log from those of every other.
type StoreID [16]byte

// Mark is a revision up to which something was compacted.
type Mark struct {
	Revision int64  `json:"revision"`
	Millis   int64  `json:"millis"` // when Revision was committed
	Reason   string `json:"reason"`
	Removed  int64  `json:"removed,omitempty"` // when it was compacted, in ms; 0 if unknown (manifests of older versions)
}

// Manifest is the list of the log's segments and of what was compacted. On disk
// it is a line "gapless-revlog <format> <crc32c>" and JSON, replaced as a whole.
type Manifest struct {
	UUID        string          `json:"uuid"`
	Base        int64           `json:"base"`        // revision of the empty log
	NextSegment uint32          `json:"nextSegment"` // no segment has this or a larger id
	Compacted   Mark            `json:"compacted"`
	Floors      map[string]Mark `json:"floors"` // by resource
	// Rest is the floor of every resource that has no records and is not in Floors.
	Rest Mark `json:"rest"`
	// Raised, if any, is the last range of revisions that a repair has skipped on request: none of
	// them was assigned.
	Raised *Raised `json:"raised,omitempty"`
	// Segments is in the order of their first revisions. The last one is the
	// log segment that is written, unless there is none yet.
	Segments []SegmentEntry `json:"segments"`
}

// Raised is a range of revisions that were skipped: those after From, up to To.
type Raised struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// headBytes is more than the first line of a manifest has.
const headBytes = 64

// EncodeManifest returns the bytes of a manifest; ErrBadManifest if they are more
// than DecodeManifest's callers read.
func EncodeManifest(m Manifest) ([]byte, error) {
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	if len(body) > MaxManifestBytes-headBytes {
		return nil, fmt.Errorf("%w: %d bytes, the most are %d", ErrBadManifest, len(body)+headBytes, MaxManifestBytes)
	}
	head := fmt.Sprintf("%s %d %08x\n", manifestMagic, manifestFormat, crc32.Checksum(body, castagnoli))
	return append([]byte(head), body...), nil
}

// DecodeManifest reads and checks a manifest. Its errors are ErrBadManifest and
// ErrNewerManifest.
func DecodeManifest(b []byte) (Manifest, error) {
	head, body, found := bytes.Cut(b, []byte("\n"))
	var magic string
	var format int
	var sum uint32
	if n, err := fmt.Sscanf(string(head), "%s %d %x", &magic, &format, &sum); !found || n < 2 || magic != manifestMagic {
		return Manifest{}, fmt.Errorf("%w: its first line is %.40q (%w)", ErrBadManifest, head, orNil(err))
	}
	if format > manifestFormat {
		return Manifest{}, fmt.Errorf("%w: format %d, this one reads %d", ErrNewerManifest, format, manifestFormat)
	}
	if got := crc32.Checksum(body, castagnoli); format < 1 || got != sum {
		return Manifest{}, fmt.Errorf("%w: format %d, checksum %08x, want %08x", ErrBadManifest, format, got, sum)
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	return m, m.Check()
}

// orNil makes a nil error printable.
func orNil(err error) error {
	if err == nil {
		return errors.New("not ours")
	}
	return err
}

// Check refuses a manifest that no log has.
func (m Manifest) Check() error {
	if id, err := hex.DecodeString(m.UUID); err != nil || len(id) != len(StoreID{}) {
		return fmt.Errorf("%w: uuid %q", ErrBadManifest, m.UUID)
	}
	if m.Base < 0 || m.Base > MaxBaseRevision || m.Compacted.Revision < 0 || m.Rest.Revision < 0 {
		return fmt.Errorf("%w: base %d, compacted %d", ErrBadManifest, m.Base, m.Compacted.Revision)
	}
	if r := m.Raised; r != nil && (r.From < 0 || r.To <= r.From || r.To > MaxRevision) {
		return fmt.Errorf("%w: raised from %d to %d", ErrBadManifest, r.From, r.To)
	}
	seen := map[uint32]bool{}
	for i, s := range m.Segments {
		last := i == len(m.Segments)-1
		switch {
		case s.ID >= m.NextSegment || seen[s.ID],
			s.First <= m.Base || s.Last < s.First-1 || s.Last > MaxRevision,
			s.End < SegmentHeaderBytes || s.End > math.MaxUint32,
			s.Size < 0 || s.Sealed && s.Size != 0,
			s.Kind != KindLog && s.Kind != KindBase,
			s.Sealed == last, last && s.Kind != KindLog,
			i > 0 && s.First <= m.Segments[i-1].First:
			return fmt.Errorf("%w: segment %+v at position %d", ErrBadManifest, s, i)
		}
		seen[s.ID] = true
	}
	return nil
}

// ID returns the log's id. The manifest was checked.
func (m Manifest) ID() StoreID {
	var id StoreID
	_, _ = hex.Decode(id[:], []byte(m.UUID)) // check has proved it
	return id
}
