package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// backupPath is where an administrator gets a backup.
	backupPath = "/gapless/v1/backup"
	// backupType is the type of the answer.
	backupType = "application/vnd.gapless.backup"
	// backupDeadline is how long it may take, and backupStall how long its client may take for one piece of it.
	backupDeadline = 24 * time.Hour
	backupStall    = time.Minute
	// backupPiece is small enough for a slow client.
	backupPiece = 32 << 10
)

// Backup says what a backup has; it is the body of a request, too.
type Backup struct {
	// History adds the versions that were replaced or deleted.
	History bool `json:"history,omitempty"`
}

// backup is an extension: an administrator gets all objects as they are stored. It is a POST, so that a
// permission to read every path does not include all Secrets. If the answer cannot be completed the
// connection is cut, and what the client has lacks its end.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	b, err := readBackup(r)
	if err != nil {
		return err
	}
	to := &unhurried{to: w, ctl: http.NewResponseController(w)}
	err = s.cfg.Backup(r.Context(), b, to)
	if err != nil && to.begun {
		s.logger.WarnContext(r.Context(), "a backup was cut off", slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	return err
}

// readBackup reads the body of a request.
func readBackup(r *http.Request) (b Backup, err error) {
	if r.URL.RawQuery != "" {
		return b, wire.BadRequest("a backup has no parameters in its query, but there is %q", r.URL.RawQuery)
	}
	decoder := json.NewDecoder(bytes.NewReader(limit.Received(r)))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&b); err == nil && decoder.More() {
		err = errors.New("there is data after the JSON value")
	}
	if err != nil {
		return b, wire.BadRequest("the body must be {} or {\"history\":true}: %v", err)
	}
	return b, nil
}

// unhurried is an answer whose writes may take long together, but each only for some time.
type unhurried struct {
	to    http.ResponseWriter
	ctl   *http.ResponseController
	begun bool
}

var _ io.Writer = (*unhurried)(nil)

// Write implements io.Writer.
func (u *unhurried) Write(p []byte) (int, error) {
	if !u.begun {
		u.begun = true
		u.to.Header().Set("Content-Type", backupType)
		u.to.WriteHeader(http.StatusOK)
	}
	// Over HTTP/2 a deadline resets the stream even if nothing is being written.
	defer func() { _ = u.ctl.SetWriteDeadline(time.Time{}) }()
	written := 0
	for piece := range slices.Chunk(p, backupPiece) {
		_ = u.ctl.SetWriteDeadline(time.Now().Add(backupStall)) // without support there is no limit
		n, err := u.to.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}
