package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// The states of a data directory, as `gapless fsck` prints them.
const (
	stateClean    = "clean"
	stateDamaged  = "damaged"
	stateBeyond   = "damaged beyond repair"
	stateRepaired = "repaired"
	stateLossy    = "repaired, with losses"
	stateRaised   = "raised"
	stateNewer    = "written by a newer version of gapless"
)

// fsckReport is what `gapless fsck -o json` prints.
type fsckReport struct {
	Directory   string         `json:"directory"`
	State       string         `json:"state"`
	Log         *fsck.Report   `json:"log,omitempty"`
	Credentials []fsck.Problem `json:"credentials"`
	Kept        string         `json:"kept,omitempty"` // where a repair moved the previous files
	// Copies are the directories of logs of etcd's history, which are not checked: a server says if one is damaged, and
	// makes another one of what etcd has.
	Copies []string `json:"copies,omitempty"`
}

func newFsck(io streams) *cobra.Command {
	var repair, quiet bool
	var bump int64
	var output string
	cmd := &cobra.Command{
		Use:   "fsck DIR",
		Short: "Check the data directory of a stopped server, and repair it",
		Long: `Check the data directory of a stopped server: the log, the certificates and the
kubeconfig. The report names each damaged file, the offset in it, and the revisions
and objects that are affected. Without --repair nothing is changed.

--repair keeps everything that can be read. Clients that need lost history get
410 Expired and list again, and no resourceVersion is used twice. Objects whose
newest state cannot be read are removed, and the report names them. All previous
files are kept in DIR/damaged-TIME, which you can remove later.

--repair --bump N skips N resourceVersions also where nothing is damaged. Use it
after restoring an older copy of DIR, with more than were written since the copy:
clients that know those list again, instead of taking new versions for old ones.

Exit codes: 0 no damage, or repaired without loss; 1 the check failed, or a newer
version wrote DIR; 2 invalid command line; 4 damaged, and --repair can repair it;
5 damaged beyond repair; 6 repaired, and acknowledged writes are lost or may be.`,
		Example: `  # check
  gapless fsck ./gapless-data

  # check, with a report in JSON
  gapless fsck ./gapless-data -o json

  # repair
  gapless fsck ./gapless-data --repair

  # after restoring an older copy
  gapless fsck ./gapless-data --repair --bump 1000000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one data directory, for example: gapless fsck gapless-data; got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case output != "text" && output != "json":
				return &usageError{fmt.Errorf("-o %q: want text or json", output)}
			case bump < 1 || bump > 1<<40:
				return &usageError{fmt.Errorf("--bump %d: want a number from 1 to %d", bump, int64(1)<<40)}
			}
			raise := cmd.Flags().Changed("bump")
			if raise && !repair {
				return &usageError{errors.New("--bump without --repair would change nothing: add --repair")}
			}
			shown := newSteps(io.quieted(quiet), progress.Bytes)
			o := fsck.Options{Repair: repair, Bump: bump, Raise: raise, Progress: shown.ofFsck}
			report, err := checkDir(cmd.Context(), args[0], o)
			shown.end()
			if err != nil {
				return err
			}
			return cmp.Or(report.write(io, output), report.verdict())
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what can be repaired")
	cmd.Flags().Int64Var(&bump, "bump", fsck.DefaultBump,
		"how many resource versions a repair skips if clients may have seen some that were lost; if it is given, always")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format of the report: text or json")
	quietFlag(cmd.Flags(), &quiet)
	return cmd
}

// write writes the report in a format.
func (r *fsckReport) write(io streams, format string) error {
	if format != "json" {
		r.print(io)
		return nil
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	io.printf("%s\n", body)
	return nil
}

// verdict is the exit code.
func (r *fsckReport) verdict() error {
	codes := map[string]int{stateDamaged: exitDamaged, stateBeyond: exitBeyond, stateLossy: exitLossy, stateNewer: exitRunTime}
	if code, is := codes[r.State]; is {
		return &verdict{code}
	}
	return nil
}

// steps shows how far a command is that has several steps: with a meter for each.
type steps struct {
	io    streams
	unit  progress.Unit
	name  string
	meter *progress.Meter
}

func newSteps(io streams, unit progress.Unit) *steps { return &steps{io: io, unit: unit} }

func (s *steps) set(name string, done, of int64) {
	if name != s.name {
		s.end()
		s.name, s.meter = name, progress.New(s.io.err, name, s.unit)
	}
	s.meter.Set(done, of)
}

func (s *steps) ofFsck(step fsck.Step, done, total int64) { s.set(string(step), done, total) }

func (s *steps) end() {
	if s.meter != nil {
		s.meter.End()
	}
}

// copiesIn returns the directories below dir that have logs of etcd's history.
func copiesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for logs of etcd's history: %w", err)
	}
	var copies []string
	for _, e := range entries {
		if e.IsDir() && (e.Name() == "replica" || strings.HasPrefix(e.Name(), "replica-")) {
			copies = append(copies, filepath.Join(dir, e.Name()))
		}
	}
	return copies, nil
}

// checkDir checks, and repairs, the log and the credentials below dir.
func checkDir(ctx context.Context, dir string, o fsck.Options) (*fsckReport, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	log, hasLog := filepath.Join(dir, "log"), true
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		hasLog = false
		if _, err := os.Stat(filepath.Join(dir, "pki")); err != nil {
			return nil, fmt.Errorf("%s is not a gapless data directory: it has neither log nor pki", dir)
		}
	}
	report := &fsckReport{Directory: dir, State: stateClean, Credentials: []fsck.Problem{}}
	if report.Copies, err = copiesIn(dir); err != nil {
		return nil, err
	}
	faults, err := auth.Inspect(dir)
	if err != nil {
		return nil, fmt.Errorf("check the credentials: %w", err)
	}
	worst := report.addFaults(faults)
	kept := fsck.KeptDir(dir, time.Now())
	o.Kept = filepath.Join(kept, "log")
	if hasLog {
		if worst == fsck.Beyond {
			o.Repair = false // repair all or nothing
		}
		if report.Log, err = fsck.Run(ctx, log, o); err != nil {
			if locked, ok := errors.AsType[*store.LockedError](err); ok {
				return nil, fmt.Errorf("a server is running on %s (%s): stop it first", dir, locked.Holder)
			}
			removeIfEmpty(kept)
			return nil, fmt.Errorf("check the log: %w", err)
		}
		if w := report.Log.Worst(); w == fsck.Newer || w == fsck.Beyond || w == fsck.Repairable && worst != fsck.Beyond {
			worst = w
		}
	} else if o.Raise {
		return nil, fmt.Errorf("%s has no log: there is nothing to raise", dir)
	}
	switch worst {
	case fsck.Newer:
		report.State = stateNewer
	case fsck.Beyond:
		report.State = stateBeyond
	case fsck.Repairable:
		report.State = stateDamaged
		if o.Repair {
			return report, report.repair(dir, kept, faults)
		}
	case fsck.Note:
		if hasLog && report.Log.Repair != nil { // it was raised
			report.State, report.Kept = stateRaised, kept
		}
	}
	return report, nil
}

// removeIfEmpty removes the directory for previous files if a repair moved none.
func removeIfEmpty(dir string) { _ = os.Remove(dir) } // fails if it has some, or does not exist

// addFaults adds the faults of the credentials, and returns the worst severity.
func (r *fsckReport) addFaults(faults []auth.Fault) fsck.Severity {
	worst := fsck.Note
	for _, f := range faults {
		p := fsck.Problem{File: f.File, Offset: f.Offset, Found: f.Found, Severity: fsck.Severity(f.Severity), Repair: f.Repair}
		if p.Severity == fsck.Beyond || p.Severity == fsck.Repairable && worst != fsck.Beyond {
			worst = p.Severity
		}
		r.Credentials = append(r.Credentials, p)
	}
	return worst
}

// repair repairs the credentials after the log was repaired.
func (r *fsckReport) repair(dir, kept string, faults []auth.Fault) error {
	if err := durable.MkdirAll(filepath.Join(kept, "pki")); err != nil {
		return err
	}
	if err := auth.Repair(dir, filepath.Join(kept, "pki"), faults); err != nil {
		return err
	}
	r.Kept, r.State = kept, stateRepaired
	if r.Log != nil && r.Log.Lost() {
		r.State = stateLossy
	}
	removeIfEmpty(filepath.Join(kept, "pki"))
	return nil
}

// print prints the report for people.
func (r *fsckReport) print(io streams) {
	io.printf("%s: %s\n", r.Directory, r.State)
	for _, copied := range r.Copies {
		io.printf("%s: not checked: it is a copy of what etcd has; a server says if it is damaged, and goes on without it\n",
			copied)
	}
	problems := r.Credentials
	if r.Log != nil {
		io.printf("log: %d objects, %d records in %d segments, up to resourceVersion %d\n",
			r.Log.Objects, r.Log.Records, r.Log.Segments, r.Log.Revision)
		if raised := r.Log.Raised; raised != nil {
			io.printf("raised before: no write has got resourceVersions %s\n", span(*raised))
		}
		problems = append(r.Log.Problems, problems...)
	}
	for _, p := range problems {
		where := p.File
		if p.Offset >= 0 {
			where = fmt.Sprintf("%s at byte %d", p.File, p.Offset)
		}
		io.printf("\n%s: %s (%s)\n", where, p.Found, p.Severity)
		if p.Revisions != nil {
			io.printf("  revisions  %s\n", span(*p.Revisions))
		}
		if len(p.Keys) > 0 {
			io.printf("  objects    %s\n", strings.Join(p.Keys, ", "))
		}
		if p.Repair != "" {
			io.printf("  repair     %s\n", p.Repair)
		}
	}
	if r.Log != nil {
		r.printLoss(io)
	}
}

func (r *fsckReport) printLoss(io streams) {
	if keys := r.Log.LostKeys; len(keys) > 0 {
		io.printf("\nThe newest state of %d objects is lost: %s\n", len(keys), strings.Join(keys, ", "))
	}
	for _, v := range r.Log.LostRevisions {
		io.printf("\nWrites at %s may be lost: objects may be missing, or in an older state.\n", span(v))
	}
	if fix := r.Log.Repair; fix != nil {
		io.printf("\nThe log continues after resourceVersion %d.", fix.Revision)
		if fix.Skipped != nil {
			io.printf(" No write has got %s.", span(*fix.Skipped))
		}
		if fix.Expired > 0 {
			io.printf(" Clients with a resourceVersion below %d get 410 and list again.", fix.Expired)
		}
		io.printf("\n")
	}
	switch r.State {
	case stateRepaired, stateLossy, stateRaised:
		io.printf("\nThe previous files are in %s.\n", r.Kept)
	case stateDamaged:
		io.printf("\nTo repair it: gapless fsck %s --repair\n", r.Directory)
	}
}

func span(r fsck.Revisions) string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d to %d", r.From, r.To)
}
