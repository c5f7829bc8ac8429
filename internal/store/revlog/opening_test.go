package revlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// TestAStartThatTakesLongSaysHowFarItIs reads a log from a disk that needs a second for each read.
func TestAStartThatTakesLongSaysHowFarItIs(t *testing.T) {
	files := disktest.New(rand.New(rand.NewPCG(1, 2)))
	write(t, files)
	for name, took := range map[string]time.Duration{"fast": 0, "slow": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := files.Clone()
				slow.SetWait(func(op disktest.Op) {
					if op.Kind == "read" {
						<-time.After(took)
					}
				})
				var lines bytes.Buffer
				logger := slog.New(slog.NewJSONHandler(&lines, nil))
				log, err := revlog.Open(t.Context(), revlog.Options{FS: slow, SegmentBytes: 8 << 10, Logger: logger})
				if err != nil {
					t.Fatalf("open the log: %v", err)
				}
				if err := log.Close(); err != nil {
					t.Fatalf("close the log: %v", err)
				}
				checkOpening(t, &lines, took > 0)
			})
		})
	}
}

// write fills a log with several segments.
func write(t *testing.T, files *disktest.Disk) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{FS: files, SegmentBytes: 8 << 10})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }() // ends with ctx
	for i := range 100 {
		key := fmt.Sprintf("pods/%d", i)
		if _, err := log.Commit(ctx, store.Txn{Key: key, Value: make([]byte, 500)}); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the log ended with %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatalf("close the log: %v", err)
	}
}

// checkOpening checks the messages of a start: they grow, up to the size of the log.
func checkOpening(t *testing.T, lines io.Reader, want bool) {
	t.Helper()
	var before, count int64
	for in := json.NewDecoder(lines); ; {
		var line struct {
			Msg   string
			Read  int64 `json:"read_bytes"`
			Total int64 `json:"total_bytes"`
			Left  int64 `json:"left_ms"`
		}
		if err := in.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the log's messages: %v", err)
		}
		if line.Msg != "reading the log" {
			continue
		}
		count++
		if line.Read <= before || line.Read > line.Total || line.Read < line.Total && line.Left <= 0 {
			t.Errorf("after %d bytes it says %+v", before, line)
		}
		before = line.Read
	}
	if want != (count >= 3) || !want && count > 0 {
		t.Errorf("it said %d times how far it is", count)
	}
}
