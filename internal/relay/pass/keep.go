package pass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/relay/kept"
)

// keepEvery is how often documents that have changed are written to the disk.
const keepEvery = time.Minute

// keptDocument is what the line before a document's body says.
type keptDocument struct {
	Path     string      `json:"path"`
	Query    string      `json:"query,omitempty"`
	Accept   string      `json:"accept,omitempty"`
	Encoding string      `json:"encoding,omitempty"`
	Header   http.Header `json:"header"`
	Sent     time.Time   `json:"sent"`
	Bytes    int         `json:"bytes"`
}

// Keep remembers the documents that were kept in a file, as old as they are, and makes Run keep them
// there. It is called before the first request. Errors: kept.ErrUnusable.
func (d *Documents) Keep(f kept.File) error {
	d.file = f
	body, err := f.Load()
	if err != nil || body == nil {
		return err
	}
	all, err := decodeDocuments(body)
	if err != nil {
		return f.Unusable(err)
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, doc := range all {
		if doc.sent.After(now) {
			doc.sent = now // the clock went back
		}
		doc.used = doc.sent
		d.keepLocked(k, doc)
	}
	d.changed = false
	return nil
}

// Run keeps documents that have changed in the file of Keep, until ctx ends. It is called once.
func (d *Documents) Run(ctx context.Context) error {
	ticks := time.NewTicker(keepEvery)
	defer ticks.Stop()
	defer d.write()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			d.write()
		}
	}
}

func (d *Documents) write() {
	if !d.file.Keeps() {
		return
	}
	d.mu.Lock()
	changed, all := d.changed, make(map[documentKey]document, len(d.kept))
	for k, doc := range d.kept {
		all[k] = *doc
	}
	d.changed = false
	d.mu.Unlock()
	if !changed {
		return
	}
	body, err := encodeDocuments(all)
	if err == nil {
		err = d.file.Save(body)
	}
	if err != nil {
		d.pass.cfg.Logger.Warn("the documents of discovery are not kept for the next start", slog.Any("error", err))
	}
}

func encodeDocuments(all map[documentKey]document) ([]byte, error) {
	var out bytes.Buffer
	for k, doc := range all {
		head, err := json.Marshal(keptDocument{k.path, k.query, k.accept, k.encoding, doc.header, doc.sent, len(doc.body)})
		if err != nil {
			return nil, fmt.Errorf("encode a document: %w", err)
		}
		out.Write(append(head, '\n'))
		out.Write(doc.body)
	}
	return out.Bytes(), nil
}

func decodeDocuments(body []byte) (map[documentKey]*document, error) {
	all := map[documentKey]*document{}
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		var is keptDocument
		if err := json.Unmarshal(line, &is); err != nil {
			return nil, fmt.Errorf("it is damaged: %w", err)
		}
		if is.Bytes < 0 || is.Bytes > len(rest) {
			return nil, errors.New("it is damaged: a document is cut off")
		}
		doc := &document{header: is.Header, body: bytes.Clone(rest[:is.Bytes]), sent: is.Sent}
		if doc.header == nil {
			doc.header = http.Header{}
		}
		all[documentKey{is.Path, is.Query, is.Accept, is.Encoding}] = doc
		body = rest[is.Bytes:]
	}
	return all, nil
}
