// Package fsck finds damage in the directory of a log that is not in use, and
// repairs it.
//
// A [Problem] is one damaged place: its file and byte, and the revisions and keys that it
// affects. A [Report] has all of them, and what a repair would lose. A [Repair] is the result
// of a repair, which keeps the old files next to the log.
//
// A repaired log is intact: every record was checked. Raised floors refuse reads
// that need lost records, and no revision is assigned twice.
package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// DefaultBump is how far a repaired log skips ahead when revisions may have been
// lost that clients have seen.
const DefaultBump = 1_000_000

// maxKeys bounds the keys of one problem in a report.
const maxKeys = 1000

// Severity is how bad a problem is.
type Severity string

// The severities, from harmless to beyond repair.
const (
	// Note needs no repair: the next start handles it.
	Note Severity = "note"
	// Repairable is damage after which Run with Options.Repair leaves a sound log.
	Repairable Severity = "repairable"
	// Beyond is damage that cannot be repaired.
	Beyond Severity = "beyond repair"
	// Newer is no damage: a newer version has written a format that this one does not know.
	Newer Severity = "newer"
)

// Revisions is a range, both ends inside.
type Revisions struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Problem is one damaged place.
type Problem struct {
	File      string     `json:"file"`   // relative to the data directory
	Offset    int64      `json:"offset"` // in bytes; -1 if it concerns the whole file
	Found     string     `json:"found"`
	Severity  Severity   `json:"severity"`
	Revisions *Revisions `json:"revisions,omitempty"` // which are unreadable
	Keys      []string   `json:"keys,omitempty"`      // of what is unreadable, as far as they could be read
	Repair    string     `json:"mend,omitempty"`      // what a repair does, or what to do instead
}

// Report is the state of a log.
type Report struct {
	Revision int64     `json:"revision"` // highest one that was seen
	Segments int       `json:"segments"`
	Records  int64     `json:"records"` // whole ones
	Objects  int       `json:"objects"` // that exist, by the whole records
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"`
	// LostKeys are objects whose newest state is unreadable; a repair drops them.
	LostKeys []string `json:"lostKeys,omitempty"`
	// LostRevisions were written to objects of which not even the key is known: those
	// may be missing after a repair, or be in an older state.
	LostRevisions []Revisions `json:"lostRevisions,omitempty"`
	// Raised are the revisions that an earlier repair has skipped because of Options.Raise.
	Raised *Revisions `json:"raised,omitempty"`
	Repair *Repair    `json:"repair,omitempty"`
}

// Step is what Run does.
type Step string

// The steps.
const (
	Checking  Step = "checked"
	Repairing Step = "written again"
)

// Repair is the result of a repair.
type Repair struct {
	Kept     string `json:"kept"`     // directory with the former files
	Expired  int64  `json:"expired"`  // resource versions below are answered with 410; 0 if none is
	Revision int64  `json:"revision"` // the next write gets a larger one
	// Skipped are revisions that no write has got, and none will; nil: none.
	Skipped *Revisions `json:"skipped,omitempty"`
}

// Worst returns the highest severity of the problems; "" if there are none.
func (r *Report) Worst() Severity {
	worst := Severity("")
	rank := map[Severity]int{Note: 1, Repairable: 2, Beyond: 3, Newer: 4}
	for _, p := range r.Problems {
		if rank[p.Severity] > rank[worst] {
			worst = p.Severity
		}
	}
	return worst
}

// Lost reports whether writes that were acknowledged are lost, or may be.
func (r *Report) Lost() bool { return len(r.LostKeys) > 0 || len(r.LostRevisions) > 0 }

// Options are those of Run.
type Options struct {
	// Repair repairs all repairable damage. Without it nothing is changed.
	Repair bool
	// Kept is the directory that a repair makes for the former files.
	Kept string
	// Bump is how far a repaired log skips ahead; 0 is DefaultBump.
	Bump int64
	// Raise skips ahead even if nothing can be lost: the log is an older copy of one that has
	// assigned revisions since. Clients that know these list again. A log to which nothing was
	// written since it was raised is raised to Bump revisions in all. Only with Repair.
	Raise bool
	// Progress receives the number of bytes that a step has done, and of all that it has to do; nil is allowed.
	Progress func(step Step, done, total int64)
	// FS replaces the log's file system, for tests.
	FS disk.FS
}

// Run checks the log in dir, and repairs it if Options say so. Its errors are not
// about damage, which is in the report: *store.LockedError when another process uses the
// directory, or an error of the file system. After an error nothing was changed.
func Run(ctx context.Context, dir string, o Options) (_ *Report, err error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	if o.FS == nil {
		if o.FS, err = disk.NewOS(dir); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, o.FS.Dir().Close()) }()
	}
	o.Bump = cmp.Or(o.Bump, DefaultBump)
	held, err := o.FS.Dir().Lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	c := &check{opts: o, fs: o.FS, dir: dir, base: filepath.Base(dir), report: &Report{Problems: []Problem{}}}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.look(); err != nil {
		return nil, err
	}
	if err := c.scanAll(ctx); err != nil {
		return nil, err
	}
	c.judge()
	c.sum()
	if o.Repair && (c.report.Worst() == Repairable || c.raises()) {
		if c.report.Repair, err = c.repair(ctx); err != nil {
			return nil, fmt.Errorf("repair %s: %w", dir, err)
		}
	}
	return c.report, nil
}

// note adds a problem of a file of the log.
func (c *check) note(p Problem) {
	p.File = c.base + "/" + p.File
	c.report.Problems = append(c.report.Problems, p)
}

// sum completes the report.
func (c *check) sum() {
	r := c.report
	r.Segments, r.Revision = len(c.segments), max(c.highest, c.manifest.Base)
	if raised := c.manifest.Raised; raised != nil {
		r.Raised = &Revisions{From: raised.From + 1, To: raised.To}
	}
	for _, p := range c.newest {
		if !p.deleted {
			r.Objects++
		}
	}
	slices.Sort(r.LostKeys)
	r.LostKeys = slices.Compact(r.LostKeys)
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	for i := range r.Problems {
		p := &r.Problems[i]
		slices.Sort(p.Keys)
		p.Keys = slices.Compact(p.Keys)
		p.Keys = p.Keys[:min(len(p.Keys), maxKeys)]
	}
}

// keptName is the name of the directory for the former files.
func keptName(now time.Time) string { return "damaged-" + now.UTC().Format("20060102T150405Z") }

// KeptDir returns a directory in the data directory for the former files of a repair
// that begins now. It does not exist yet.
func KeptDir(dataDir string, now time.Time) string {
	path := filepath.Join(dataDir, keptName(now))
	for i := 2; ; i++ {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		path = filepath.Join(dataDir, fmt.Sprintf("%s-%d", keptName(now), i))
	}
}
