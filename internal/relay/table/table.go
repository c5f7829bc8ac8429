// Package table finds out whether the rows that a relay makes of upstream's objects are upstream's own.
//
// An [Asker] asks upstream. A [Sample] is upstream's table of at most one object, with that object.
package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// longestAnswer bounds an answer: an object has at most 3 MiB (etcd), and columns some KiB.
const longestAnswer = 8 << 20

// Asker asks upstream. It is safe for concurrent use.
type Asker struct {
	client *http.Client
	base   *url.URL
}

// NewAsker returns an Asker with the relay's credentials for upstream.
func NewAsker(upstream *rest.Config) (*Asker, error) {
	client, err := rest.HTTPClientFor(upstream)
	if err != nil {
		return nil, fmt.Errorf("the client for upstream's tables: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream's address: %w", err)
	}
	return &Asker{client: client, base: base}, nil
}

// Sample is upstream's table of a resource, with the first object of its list.
type Sample struct {
	Columns []metav1.TableColumnDefinition
	// Rows has a row with the object as it is, none if there are no objects, and more if upstream ignores
	// the limit.
	Rows []Row
	// From and To are the times between which the ages in cells were computed.
	From, To time.Time
}

// Row is a row of upstream's table.
type Row struct {
	Cells      []any                      `json:"cells"` // numbers are json.Number
	Conditions []metav1.TableRowCondition `json:"conditions"`
	Object     json.RawMessage            `json:"object"`
}

// accept is the form that is asked for.
const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Ask reads upstream's table of a resource, with one request for one object. Errors: upstream did not
// answer, or its answer is no such table.
func (a *Asker) Ask(ctx context.Context, gvr schema.GroupVersionResource) (*Sample, error) {
	path := "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
	if gvr.Group == "" {
		path = "/api/" + gvr.Version + "/" + gvr.Resource
	}
	s := &Sample{From: time.Now()}
	var answer struct {
		Kind       string                         `json:"kind"`
		APIVersion string                         `json:"apiVersion"`
		Columns    []metav1.TableColumnDefinition `json:"columnDefinitions"`
		Rows       []Row                          `json:"rows"`
	}
	// Without a resourceVersion: kube-apiserver ignores the limit of a list of any state.
	query := url.Values{"limit": {"1"}, "includeObject": {string(metav1.IncludeObject)}}
	if err := a.get(ctx, path, query, &answer); err != nil {
		return nil, fmt.Errorf("ask for the table of %s: %w", gvr.GroupResource(), err)
	}
	s.To = time.Now()
	if answer.Kind != "Table" || answer.APIVersion != metav1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("ask for the table of %s: the answer is a %s of %s",
			gvr.GroupResource(), answer.Kind, answer.APIVersion)
	}
	s.Columns, s.Rows = answer.Columns, answer.Rows
	return s, nil
}

// Version is the version of an API server.
type Version struct {
	Git          string // "v1.37.2"
	Major, Minor int    // 0 if upstream says something else than numbers
}

// Version reads upstream's version.
func (a *Asker) Version(ctx context.Context) (Version, error) {
	var info version.Info
	if err := a.get(ctx, "/version", nil, &info); err != nil {
		return Version{}, fmt.Errorf("ask for upstream's version: %w", err)
	}
	v := Version{Git: info.GitVersion}
	major, err := strconv.Atoi(info.Major)
	minor, failed := strconv.Atoi(strings.TrimSuffix(info.Minor, "+")) // of builds with changes
	if err == nil && failed == nil {
		v.Major, v.Minor = major, minor
	}
	return v, nil
}

// RefusedError says that upstream answered with another code than 200.
type RefusedError struct{ Code int }

func (e *RefusedError) Error() string { return "upstream answered " + strconv.Itoa(e.Code) }

// get reads a document as JSON into a value.
func (a *Asker) get(ctx context.Context, path string, query url.Values, into any) error {
	to := a.base.JoinPath(path)
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept+",application/json;q=0.9")
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // all that is wanted was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return &RefusedError{Code: resp.StatusCode}
	case len(body) > longestAnswer:
		return errors.New("the answer is too long")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	return dec.Decode(into)
}
