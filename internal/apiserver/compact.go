package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// compactPath is where an administrator removes history.
const compactPath = "/gapless/v1/compact"

// Compaction says which history to remove: one of UpTo and OlderThan is set.
type Compaction struct {
	UpTo      kube.ResourceVersion
	OlderThan time.Duration
	// Purge removes what is compacted from the files of the log before the answer.
	Purge bool
}

// Compacted says what was removed: history up to UpTo. It made the readable versions
// smaller by HistoryBytes, and the log by LogBytes.
type Compacted struct {
	UpTo         kube.ResourceVersion
	HistoryBytes int64
	LogBytes     int64
}

// compactRequest and compactAnswer are the bodies of compactPath; resource
// versions are strings as everywhere, durations are Go's ("10m").
type compactRequest struct {
	UpTo      string `json:"upTo,omitempty"`
	OlderThan string `json:"olderThan,omitempty"`
	Purge     bool   `json:"purge,omitempty"`
}

type compactAnswer struct {
	Compacted         string `json:"compacted"`
	FreedHistoryBytes int64  `json:"freedHistoryBytes"`
	FreedLogBytes     int64  `json:"freedLogBytes"`
}

// compact is an extension: an administrator removes history.
func (s *Server) compact(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	c, err := readCompaction(r)
	if err != nil {
		return err
	}
	done, err := s.cfg.Compact(context.WithoutCancel(r.Context()), c)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, compactAnswer{
		Compacted: done.UpTo.String(), FreedHistoryBytes: done.HistoryBytes, FreedLogBytes: done.LogBytes,
	})
}

func readCompaction(r *http.Request) (Compaction, error) {
	if r.URL.RawQuery != "" { // a dryRun that is ignored would remove history
		return Compaction{}, wire.BadRequest("a compaction has no parameters in its query, but there is %q", r.URL.RawQuery)
	}
	var req compactRequest
	decoder := json.NewDecoder(bytes.NewReader(limit.Received(r)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&req)
	if err == nil && decoder.More() {
		err = errors.New("there is data after the JSON value")
	}
	if err != nil {
		return Compaction{}, wire.BadRequest("the body must be {\"upTo\":\"RESOURCEVERSION\"} or {\"olderThan\":\"10m\"}: %v",
			err)
	}
	if (req.UpTo == "") == (req.OlderThan == "") {
		return Compaction{}, wire.BadRequest("set exactly one of upTo and olderThan")
	}
	c := Compaction{Purge: req.Purge}
	if req.UpTo != "" {
		if c.UpTo, err = kube.ParseResourceVersion(req.UpTo); err != nil {
			return Compaction{}, wire.BadRequest("upTo is %q, and must be a resourceVersion: a number", req.UpTo)
		}
	} else if c.OlderThan, err = time.ParseDuration(req.OlderThan); err != nil {
		return Compaction{}, wire.BadRequest("olderThan is %q, and must be a duration like \"10m\"", req.OlderThan)
	}
	if c.UpTo == 0 && c.OlderThan <= 0 {
		return Compaction{}, wire.BadRequest("upTo and olderThan must be larger than zero")
	}
	return c, nil
}
