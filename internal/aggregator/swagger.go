package aggregator

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// How servers behind are asked for documents of OpenAPI v2, which take them longer than others: kube-aggregator
// pkg/controllers/openapi waits a minute, for one at a time.
const (
	swaggerWithin = 30 * time.Second
	// maxSwaggers bounds what is kept of them all, compressed, in bytes.
	maxSwaggers = 64 << 20
	// A document that cannot be used is read again after lookEvery, and then after twice as long each time, up to
	// 1<<mostDoublings times lookEvery: it may have 16 MiB, and stays as it is until its server gets another version.
	mostDoublings = 5
)

// errUnusable is what an answer about OpenAPI v2 is that another question will hardly change.
var errUnusable = errors.New("it cannot be used")

// Swagger is what a server behind says of a version of a group in OpenAPI v2. It is immutable.
type Swagger struct {
	schema.GroupVersion
	// etag is the server's, sum the hash of its document.
	etag   string
	sum    [sha512.Size]byte
	zipped []byte // an openapi.Other; nil: it says nothing of the version
}

// Read returns what the server says, which the caller may change.
func (s *Swagger) Read() (*openapi.Other, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(s.zipped))
	if err != nil {
		return nil, fmt.Errorf("uncompress the document about %s: %w", s.GroupVersion, err)
	}
	text, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("uncompress the document about %s: %w", s.GroupVersion, err)
	}
	return openapi.DecodeOther(text)
}

// ReadSwagger returns what a server says of a version in its document of OpenAPI v2. Errors: those of openapi.ReadOther.
func ReadSwagger(body []byte, gv schema.GroupVersion) (*Swagger, error) {
	s := &Swagger{GroupVersion: gv, sum: sha512.Sum512(body)}
	said, err := openapi.ReadOther(body, gv)
	if err != nil || said == nil {
		return s, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(zip).Encode(said), zip.Close()); err != nil {
		return nil, fmt.Errorf("compress it: %w", err)
	}
	s.zipped = out.Bytes()
	return s, nil
}

// lookAtSwagger asks the server behind an APIService for its document of OpenAPI v2. What a server has said stays when it
// does not answer, as upstream.
func (a *Aggregator) lookAtSwagger(ctx context.Context, name string) (again time.Duration, err error) {
	of := a.of(name)
	if of == nil || of.backend == nil {
		return 0, nil
	}
	said, err := a.swaggerOf(ctx, of)
	if ctx.Err() != nil {
		return 0, nil
	}
	if err != nil {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "ask a server behind for OpenAPI v2", slog.String("apiservice", name),
			slog.Any("error", err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.services[name]
	if now == nil || now.backend == nil || now.backend.Version() != of.backend.Version() || !now.backend.serves(of.decoded) {
		return 0, nil // it has changed, and is due again
	}
	switch {
	case errors.Is(err, errUnusable):
		return now.unusableLocked(), nil
	case err != nil: // it does not answer
		return lookEvery, nil
	}
	if said == now.swagger {
		now.unusable = 0
		return lookEvery, nil
	}
	kept := len(said.zipped)
	for _, other := range a.services {
		if other != now && other.swagger != nil {
			kept += len(other.swagger.zipped)
		}
	}
	if kept > maxSwaggers {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the documents of servers behind take too much memory: one is left out",
			slog.String("apiservice", name), slog.Int("limit_bytes", maxSwaggers))
		return now.unusableLocked(), nil
	}
	now.swagger, now.unusable, a.versions = said, 0, nil
	return lookEvery, nil
}

// unusableLocked counts an answer that cannot be used, and returns after which time the next one is due.
func (s *service) unusableLocked() time.Duration {
	again := lookEvery << min(s.unusable, mostDoublings)
	s.unusable++
	return again
}

// swaggerOf returns what a server behind says now: the same Swagger while that does not change. Errors: errUnusable, and
// others where it did not answer.
func (a *Aggregator) swaggerOf(ctx context.Context, of *service) (*Swagger, error) {
	known := of.swagger
	header := http.Header{"Accept": {"application/json"}}
	if known != nil && known.etag != "" {
		header.Set("If-None-Match", known.etag)
	}
	ctx, cancel := context.WithTimeout(ctx, swaggerWithin)
	defer cancel()
	got, err := of.backend.get(ctx, &user.DefaultInfo{Name: "system:aggregator"}, "/openapi/v2", header)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	case err != nil:
		return nil, err
	case got.code == http.StatusNotModified && known != nil:
		return known, nil
	case got.code == http.StatusNotFound: // it has none
		return nil, fmt.Errorf("%w: the answer to /openapi/v2 is %d", errUnusable, got.code)
	case got.code != http.StatusOK:
		return nil, fmt.Errorf("the answer to /openapi/v2 is %d", got.code)
	case known != nil && known.sum == sha512.Sum512(got.body):
		return known, nil
	}
	said, err := ReadSwagger(got.body, of.backend.Version())
	if err != nil {
		return nil, fmt.Errorf("the document of OpenAPI v2: %w: %w", errUnusable, err)
	}
	said.etag = got.header.Get("Etag")
	return said, nil
}
