//go:build unix

package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// pastKind is what BenchmarkListOfThePast lists.
type pastKind struct {
	name, path, key string
	value           func(i, update int) string
}

// pastKinds are config maps of 1.4 KB without managed fields, and pods of 3 KB with them.
func pastKinds() []pastKind {
	const managed = `,"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1",` +
		`"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:shard":{}}},` +
		`"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},` +
		`"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}},"f:dnsPolicy":{},` +
		`"f:restartPolicy":{}}},"time":"2026-11-20T10:00:00Z"},{"manager":"kubelet","operation":"Update","apiVersion":"v1",` +
		`"fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},` +
		`"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:phase":{},"f:podIP":{},"f:startTime":{}}},` +
		`"subresource":"status","time":"2026-11-20T10:01:00Z"}]`
	meta := func(i int, more string) string {
		return fmt.Sprintf(`"metadata":{"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"bench","shard":"s%02d"}%s,`+
			`"name":"object-%05d","namespace":"ns%02d","uid":"u-%d"}`, i%100, more, i, i%100, i)
	}
	env := strings.Repeat(`{"name":"VARIABLE_OF_THE_CONTAINER","value":"some value, as they are"},`, 20)
	maps := func(i, update int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",%s,"data":{"n":"%d","text":"%01200d"}}`, meta(i, ""), update, i)
	}
	pods := func(i, update int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",%s,"spec":{"containers":[{"env":[%s{"name":"A","value":"%d"}],`+
			`"image":"registry.example/main:1","imagePullPolicy":"IfNotPresent","name":"main","resources":{}}],`+
			`"dnsPolicy":"ClusterFirst","nodeName":"node-%03d","restartPolicy":"Always"},"status":{"conditions":`+
			`[{"status":"True","type":"Ready"}],"phase":"Running","podIP":"10.0.0.1"}}`, meta(i, managed), env, update, i%500)
	}
	return []pastKind{
		{"configmaps", "/api/v1/configmaps", "configmaps", maps}, {"pods", "/api/v1/pods", "pods", pods},
	}
}

// BenchmarkListOfThePast lists 10 000 objects as they are, and as they were 100 000 changes ago, since when each was changed
// ten times: over a socket with HTTP/2, in pages of 500. Its results are how many ms of the processors each list takes, for
// server and client, and how many times as much the one of the past takes as the other (x): the first time that a server is
// asked (first-), and when it is asked again. With a selector the first one knows the labels already: pagesOf asked for them.
func BenchmarkListOfThePast(b *testing.B) {
	const objects, updates, limit = 10_000, 10, 500
	for _, kind := range pastKinds() {
		b.Run(kind.name, func(b *testing.B) {
			log, err := revlog.Open(b.Context(), revlog.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatalf("open the log: %v", err)
			}
			live := kinds.NewLive(builtin.Catalog())
			reg := openRegistryOn(b, log, live)
			w := pastWriter{log: log, kind: kind, revisions: make([]int64, objects)}
			w.write(b, 0)
			then := time.Now()
			for n := range updates {
				w.write(b, n+1)
			}
			at := "at=" + url.QueryEscape(then.UTC().Format(time.RFC3339Nano))
			for _, c := range []struct {
				name, selector string
				headers        []string
			}{
				{"json", "", []string{acceptJSON}},
				{"gzip", "", []string{acceptJSON, acceptGzip}},
				{"protobuf", "", []string{protobufAccepted}},
				{"protobuf-gzip", "", []string{protobufAccepted, acceptGzip}},
				{"table", "", []string{acceptTable}},
				{"table-gzip", "", []string{acceptTable, acceptGzip}},
				{"metadata", "", []string{acceptPartials}},
				{"metadata-gzip", "", []string{acceptPartials, acceptGzip}},
				{"metadata-protobuf", "", []string{protobufPartials}},
				{"label-all-gzip", "&labelSelector=app%3Dbench", []string{acceptJSON, acceptGzip}},
				{"label-one-gzip", "&labelSelector=shard%3Ds07", []string{acceptJSON, acceptGzip}},
				{"label-one", "&labelSelector=shard%3Ds07", []string{acceptJSON}},
				{"field-one", "&fieldSelector=metadata.name%21%3Da", []string{acceptJSON}},
			} {
				b.Run(c.name, func(b *testing.B) {
					d := openServerOver(b, reg, live, nil)
					now := d.pagesOf(b, kind.path, limit, "a=b"+c.selector)
					past := d.pagesOf(b, kind.path, limit, at+c.selector)
					d.compare(b, now, past, c.headers)
				})
			}
		})
	}
}

const (
	acceptGzip       = "Accept-Encoding: gzip"
	protobufPartials = "Accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// pastWriter writes what a kind has.
type pastWriter struct {
	log       *revlog.Log
	kind      pastKind
	revisions []int64
}

// write writes all objects once.
func (p *pastWriter) write(b testing.TB, update int) {
	b.Helper()
	const writers = 100
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < len(p.revisions); i += writers {
				done, err := p.log.Commit(context.WithoutCancel(b.Context()), store.Txn{
					Key:   fmt.Sprintf("%s/ns%02d/object-%05d", p.kind.key, i%100, i),
					Value: []byte(p.kind.value(i, update)), ExpectedModRevision: p.revisions[i],
				})
				if err != nil {
					b.Errorf("write to the log: %v", err)
					return
				}
				p.revisions[i] = done.Revision
			}
		})
	}
	all.Wait()
}

// pagesOf returns the paths of the pages of a list.
func (d *testServer) pagesOf(b testing.TB, path string, limit int, query string) (pages []string) {
	b.Helper()
	_, selector, _ := strings.Cut(query, "&")
	for page := fmt.Sprintf("%s?limit=%d&%s", path, limit, query); page != ""; {
		pages = append(pages, page)
		got := d.do(http.MethodGet, page, "")
		if got.StatusCode != http.StatusOK {
			b.Fatalf("%s: %d %s", page, got.StatusCode, got.body)
		}
		token, _ := at(tree(b, got.body), "metadata", "continue").(string)
		if page = ""; token != "" {
			page = fmt.Sprintf("%s?limit=%d&continue=%s&%s", path, limit, url.QueryEscape(token), selector)
		}
	}
	return pages
}

// compare lists now and then.
func (d *testServer) compare(b *testing.B, now, past, headers []string) {
	b.Helper()
	var first, again [2]time.Duration
	var bytes [2]int64
	round := func(used *[2]time.Duration) {
		for i, pages := range [][]string{now, past} {
			began := processorTime(b)
			bytes[i] = d.read(b, pages, headers)
			used[i] += processorTime(b) - began
		}
	}
	round(&first)
	for b.Loop() {
		round(&again)
	}
	b.ReportMetric(0, "ns/op") // of both
	b.ReportMetric(float64(bytes[1])/(1<<20), "past-MB")
	b.ReportMetric(float64(first[1].Microseconds())/1000, "first-past-ms")
	b.ReportMetric(first[1].Seconds()/first[0].Seconds(), "first-x")
	b.ReportMetric(float64(again[1].Microseconds())/1000/float64(b.N), "past-ms")
	b.ReportMetric(again[1].Seconds()/again[0].Seconds(), "x")
}

// read reads pages, and returns how many bytes they have.
func (d *testServer) read(b testing.TB, pages, headers []string) (n int64) {
	b.Helper()
	for _, page := range pages {
		resp, err := d.h2.Do(d.request(http.MethodGet, page, "", headers...))
		if err != nil {
			b.Fatalf("%s: %v", page, err)
		}
		some, err := io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: %d, %v", page, resp.StatusCode, err)
		}
		_ = resp.Body.Close()
		n += some
	}
	return n
}
