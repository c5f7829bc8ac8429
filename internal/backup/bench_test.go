package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// benchObjects is how many objects of 1 KB a benchmark has.
const benchObjects = 100_000

// filled returns a log on disk with many objects.
func filled(b *testing.B) *revlog.Log {
	b.Helper()
	log, err := revlog.Open(b.Context(), revlog.Options{Dir: filepath.Join(b.TempDir(), "log")})
	if err != nil {
		b.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(b.Context()) }() // ends with Close
	b.Cleanup(func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			b.Errorf("close the log: %v", err)
		}
	})
	random := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 1000)
	for from := 0; from < benchObjects; from += 1000 {
		var writes []revlog.Write
		for i := range 1000 {
			for at := range value {
				value[at] = byte(random.Uint32())
			}
			writes = append(writes, revlog.Write{
				Key: fmt.Sprintf("configmaps/default/object-%d", from+i), Value: bytes.Clone(value),
			})
		}
		if _, err := log.Append(b.Context(), writes); err != nil {
			b.Fatalf("write the objects: %v", err)
		}
	}
	return log
}

func BenchmarkBackup(b *testing.B) {
	log := filled(b)
	b.SetBytes(benchObjects * 1000)
	for b.Loop() {
		if _, err := backup.Take(b.Context(), backup.Log(log), backup.Options{}, io.Discard); err != nil {
			b.Fatalf("take a backup: %v", err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	log := filled(b)
	var file bytes.Buffer
	if _, err := backup.Take(b.Context(), backup.Log(log), backup.Options{}, &file); err != nil {
		b.Fatalf("take a backup: %v", err)
	}
	b.SetBytes(benchObjects * 1000)
	n := 0
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), fmt.Sprint(n), "data")
		n++
		_, err := backup.Restore(b.Context(), bytes.NewReader(file.Bytes()), backup.RestoreOptions{Dir: dir})
		if err != nil {
			b.Fatalf("restore the backup: %v", err)
		}
	}
}
