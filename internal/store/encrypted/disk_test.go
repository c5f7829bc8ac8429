package encrypted_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

// marker is what must not be found on the disk.
const marker = "MARKER-OF-A-SECRET"

// filesWith returns the files below dir that contain a text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	return found
}

// TestNoPlaintextIsOnTheDisk: not in the log, nor in its history after a compaction, nor in a
// copy of the directory in use.
func TestNoPlaintextIsOnTheDisk(t *testing.T) {
	for _, kind := range []string{"aesgcm", "aescbc", "secretbox"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			log := openLog(t, revlog.Options{Dir: dir, SegmentBytes: 8 << 10})
			f := open(t, log, configuration("secrets", provider(kind, "key1"), identity))
			var last int64
			for i := range 200 {
				last = put(t, f, fmt.Sprintf("secrets/default/%d", i%20), fmt.Sprintf("%s of version %d", marker, i))
			}
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatalf("copy the directory: %v", err)
			}
			if _, err := f.Compact(t.Context(), store.Compaction{UpTo: last}); err != nil {
				t.Fatalf("compact: %v", err)
			}
			for _, d := range []string{dir, copied} {
				if found := filesWith(t, d, marker); found != nil {
					t.Errorf("plaintext in %v", found)
				}
			}
			if found := filesWith(t, dir, "k8s:enc:"+kind+":v1:key1:"); found == nil {
				t.Error("no encrypted value is found: the test does not look at the log")
			}
			again := open(t, openLog(t, revlog.Options{Dir: copied}), configuration("secrets", provider(kind, "key1")))
			if got := get(t, again, "secrets/default/7"); got != marker+" of version 187" {
				t.Errorf("the copy has %q", got)
			}
		})
	}
}

// TestRewriteAndPurgeLeaveNoPlaintext is the way of a directory that had plaintext secrets.
func TestRewriteAndPurgeLeaveNoPlaintext(t *testing.T) {
	for name, bulk := range map[string]int{"in the segment that is written": 0, "between much that lives": 400} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log := openLog(t, revlog.Options{Dir: dir, SegmentBytes: 32 << 10})
			f := open(t, log, configuration("secrets", identity))
			secrets := func() {
				for i := range 10 {
					put(t, f, fmt.Sprintf("secrets/default/%d", i), fmt.Sprint(marker, i))
				}
			}
			secrets()
			for i := range bulk { // most of a segment lives: it is not merged by itself
				put(t, f, fmt.Sprintf("configmaps/default/%d", i), string(bytes.Repeat([]byte("x"), 300)))
			}
			if err := f.reload(t, configuration("secrets", provider("secretbox", "key1"), identity)); err != nil {
				t.Fatalf("reload: %v", err)
			}
			secrets()
			last := put(t, f, "configmaps/default/last", "x")
			if _, err := f.Compact(t.Context(), store.Compaction{UpTo: last}); err != nil {
				t.Fatalf("compact: %v", err)
			}
			t.Logf("without purge, plaintext is in %v", filesWith(t, dir, marker))
			if _, err := f.Compact(t.Context(), store.Compaction{UpTo: last, Purge: true}); err != nil {
				t.Fatalf("compact: %v", err)
			}
			if found := filesWith(t, dir, marker); found != nil {
				t.Errorf("plaintext in %v", found)
			}
			for i := range 10 {
				if got := get(t, f, fmt.Sprintf("secrets/default/%d", i)); got != fmt.Sprint(marker, i) {
					t.Errorf("secret %d is %q", i, got)
				}
			}
		})
	}
}

// TestCrashesDuringRotationLoseNothing kills a store on a simulated disk at random calls, while
// it is written to, its keys are rotated and its history is compacted and purged.
func TestCrashesDuringRotationLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	fs := disktest.New(random)
	oracle := &storetest.Oracle{}
	key := 0
	keys := func() string {
		return configuration(`"*.*"`, provider("secretbox", fmt.Sprintf("key%d", key%3)), provider("aesgcm", "key0", "key1"),
			provider("secretbox", "key0", "key1", "key2"), identity)
	}
	for life := range 40 {
		log, err := revlog.Open(t.Context(), revlog.Options{FS: fs, SegmentBytes: 8 << 10})
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- log.Run(t.Context()) }() // ends with Close
		f := open(t, log, keys())
		if err := oracle.Compare(t.Context(), f); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		dies := fs.Calls() + 1 + random.IntN(60)
		fs.SetFault(func(op disktest.Op) error {
			if op.Call >= dies {
				return errors.New("killed")
			}
			return nil
		})
		var pending store.Txn
		var compacting int64
		for i := 0; err == nil; i++ {
			switch {
			case random.IntN(10) == 0:
				key++
				if reloadErr := f.reload(t, keys()); reloadErr != nil && fs.Calls() < dies {
					t.Fatalf("life %d: %v", life, reloadErr)
				}
			case random.IntN(20) == 0 && len(oracle.Revisions()) > 0:
				upTo := oracle.Revisions()[len(oracle.Revisions())-1]
				pending, compacting = store.Txn{}, upTo
				if _, err = f.Compact(t.Context(), store.Compaction{UpTo: upTo, Purge: random.IntN(2) == 0}); err == nil {
					oracle.Compact(upTo)
				}
			default:
				pending = store.Txn{
					Key: fmt.Sprintf("secrets/%d", random.IntN(9)), Value: []byte(fmt.Sprintf("%s %d %d", marker, life, i)),
				}
				pending.ExpectedModRevision = oracle.Current(pending.Key)
				var done store.Committed
				if done, err = f.Commit(t.Context(), pending); err == nil {
					oracle.Add(done.Revision, pending)
				}
			}
		}
		crashed := fs.ProcessCrash()
		if random.IntN(2) == 0 {
			crashed = fs.PowerLoss()
		}
		f.Store.Close()
		_ = log.Close() // it has failed
		<-ended         //nolint:errcheck // as above
		fs = crashed
		for _, name := range fs.Names() {
			if bytes.Contains(fs.Bytes(name), []byte(marker)) {
				t.Fatalf("life %d: plaintext in %s", life, name)
			}
		}
		adopt(t, fs, oracle, pending, compacting)
	}
}

// adopt adds the write or compaction that was in progress to the oracle if it took effect.
func adopt(t *testing.T, fs *disktest.Disk, oracle *storetest.Oracle, pending store.Txn, compacting int64) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{FS: fs.Clone(), SegmentBytes: 8 << 10})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	defer func() { _ = log.Close() }()
	if compacting != 0 && log.Stats().Compacted == compacting {
		oracle.Compact(compacting)
	}
	if pending.Key == "" {
		return
	}
	page, err := log.Read(t.Context(), store.Query{Start: pending.Key})
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	if len(page.Records) == 1 && page.Records[0].ModRevision != oracle.Current(pending.Key) {
		oracle.Add(page.Records[0].ModRevision, pending)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct{ name, content string }{
		{"none", ""},
		{"another resource", configuration("configmaps", provider("aesgcm", "key1"))},
		{"aesgcm", configuration("secrets", provider("aesgcm", "key1"))},
		{"secretbox", configuration("secrets", provider("secretbox", "key1"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchStore(b, c.content)
			for i := range 10_000 {
				put(b, s, fmt.Sprintf("secrets/default/%05d", i), string(bytes.Repeat([]byte("x"), 1024)))
			}
			b.ReportAllocs()
			for b.Loop() {
				page, err := s.Read(b.Context(), store.Query{Start: "secrets/", End: "secrets0", Buffer: &store.Buffer{}})
				if err != nil || len(page.Records) != 10_000 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ name, content string }{
		{"none", ""},
		{"another resource", configuration("configmaps", provider("aesgcm", "key1"))},
		{"aesgcm", configuration("secrets", provider("aesgcm", "key1"))},
		{"secretbox", configuration("secrets", provider("secretbox", "key1"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchStore(b, c.content)
			v := bytes.Repeat([]byte("x"), 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Commit(b.Context(), store.Txn{Key: fmt.Sprintf("secrets/default/%d", i), Value: v}); err != nil {
					b.Fatalf("commit: %v", err)
				}
			}
		})
	}
}

// benchStore returns the log itself for "".
func benchStore(b *testing.B, content string) store.Store {
	b.Helper()
	log := openLog(b, revlog.Options{Memory: true})
	if content == "" {
		return log
	}
	return open(b, log, content)
}

var _ store.Store = (*encrypted.Store)(nil)
