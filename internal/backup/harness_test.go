package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// openLog opens a log, and closes it with the test.
func openLog(t *testing.T, o revlog.Options) *revlog.Log {
	t.Helper()
	log, err := revlog.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log: %v", err)
		}
	})
	return log
}

// state is what the keys hold: "revision value" by key.
type state map[string]string

// author writes to a log, and knows the state at each revision. Nobody else writes to it.
type author struct {
	log    *revlog.Log
	random *rand.Rand
	done   []written
	modes  map[string]int64 // the revision of each key
	last   int64
}

// written is one write.
type written struct {
	revision int64
	key      string
	value    string // "": it was deleted
}

func newAuthor(log *revlog.Log, seed uint64) *author {
	return &author{log: log, random: rand.New(rand.NewPCG(seed, 1)), modes: map[string]int64{}}
}

// write writes one key.
func (a *author) write(ctx context.Context) error {
	resources := []string{"configmaps", "pods", "secrets", "widgets.example.org"}
	key := fmt.Sprintf("%s/ns/%d", resources[a.random.IntN(len(resources))], a.random.IntN(40))
	t := store.Txn{Key: key, ExpectedModRevision: a.modes[key]}
	if t.ExpectedModRevision != 0 && a.random.IntN(4) == 0 {
		t.Delete = true
	} else if a.random.IntN(50) != 0 {
		t.Value = fmt.Appendf(nil, "%d %s", a.random.Uint64(), strings.Repeat("x", a.random.IntN(2000)))
	}
	done, err := a.log.Commit(ctx, t)
	if err != nil {
		return err
	}
	a.last, a.modes[key] = done.Revision, done.Revision
	w := written{revision: done.Revision, key: key, value: fmt.Sprintf("%d %s", done.Revision, t.Value)}
	if t.Delete {
		delete(a.modes, key)
		w.value = ""
	}
	a.done = append(a.done, w)
	return nil
}

// at returns the state at a revision.
func (a *author) at(revision int64) state {
	s := state{}
	for _, w := range a.done {
		switch {
		case w.revision > revision:
			return s
		case w.value == "":
			delete(s, w.key)
		default:
			s[w.key] = w.value
		}
	}
	return s
}

func (a *author) writes(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := a.write(t.Context()); err != nil {
			t.Fatalf("write a key: %v", err)
		}
	}
}

// taken returns a backup of a log.
func taken(t *testing.T, log *revlog.Log, history bool) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := backup.Take(t.Context(), backup.Log(log), backup.Options{History: history, Server: "test"}, &b); err != nil {
		t.Fatalf("take a backup: %v", err)
	}
	return b.Bytes()
}

// readAll reads a whole backup. The values of the records are copies. With an error they are those that
// were returned before it.
func readAll(from io.Reader) (h backup.Header, records []backup.Record, err error) {
	r, err := backup.NewReader(from)
	if err != nil {
		return h, nil, err
	}
	for {
		some, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), records, nil
		}
		if err != nil {
			return r.Header(), records, err
		}
		for _, record := range some {
			record.Value = bytes.Clone(record.Value)
			records = append(records, record)
		}
	}
}

// live returns the state that the live records of a backup have.
func live(records []backup.Record) state {
	s := state{}
	for _, r := range records {
		if r.Until == 0 {
			s[r.Key] = fmt.Sprintf("%d %s", r.Revision, r.Value)
		}
	}
	return s
}

// restored restores a backup, and returns its directory.
func restored(t *testing.T, file []byte, o backup.RestoreOptions) (string, backup.Restored) {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "data")
	done, err := backup.Restore(t.Context(), bytes.NewReader(file), o)
	if err != nil {
		t.Fatalf("restore a backup: %v", err)
	}
	return o.Dir, done
}

// held returns what a log holds.
func held(t *testing.T, log *revlog.Log) state {
	t.Helper()
	page, err := log.Read(t.Context(), store.Query{End: store.PrefixEnd("")})
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	s := state{}
	for _, r := range page.Records {
		s[r.Key] = fmt.Sprintf("%d %s", r.ModRevision, r.Value)
	}
	return s
}
