package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
)

const typeProtobuf = "application/vnd.kubernetes.protobuf"

// binaryPod is a pod in protobuf, without what changes: its resourceVersion, and the
// lengths of what that is in. Unlike in JSON, a change is of nothing else.
type binaryPod struct{ metadata, rest []byte }

// encode makes the pods' protobuf, which takes longer than a run: it is done before.
func (c *canned) encode() error {
	decode := informer.JSON[*corev1.Pod]()
	var b bytes.Buffer
	for n := range c.rvs {
		b.Reset()
		c.fleet.write(&b, n, 1)
		p, err := decode(b.Bytes())
		if err != nil {
			return fmt.Errorf("pod %d: %w", n, err)
		}
		p.ResourceVersion = ""
		whole, err := p.Marshal()
		if err != nil {
			return fmt.Errorf("pod %d: %w", n, err)
		}
		size, head := binary.Uvarint(whole[1:]) // behind the tag of the metadata, field 1
		metadata := whole[1+head:][:size]
		// An empty resourceVersion is two bytes; the last of a field counts.
		c.binary = append(c.binary, binaryPod{metadata: metadata, rest: whole[1+head+int(size):]}) //nolint:gosec // a length
	}
	return nil
}

// appendPod appends a pod's message.
func (c *canned) appendPod(b []byte, n int, rv int64) []byte {
	p := c.binary[n]
	var text [20]byte
	version := appendField(nil, 6, strconv.AppendInt(text[:0], rv, 10))
	b = binary.AppendUvarint(append(b, 1<<3|2), uint64(len(p.metadata)+len(version)))
	return append(append(append(b, p.metadata...), version...), p.rest...)
}

func appendField(b []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(value))), value...)
}

// inEnvelope appends what is around a message that is sent alone.
func inEnvelope(b []byte, kind string, message []byte) []byte {
	b = append(b, "k8s\x00"...)
	b = appendField(b, 1, appendField(appendField(nil, 1, []byte("v1")), 2, []byte(kind)))
	b = appendField(b, 2, message)
	return append(b, 3<<3|2, 0, 4<<3|2, 0)
}

// appendEvent appends a frame of a watch. object is in its envelope.
func appendEvent(b []byte, name string, object []byte) []byte {
	begin := len(b)
	b = append(b, 0, 0, 0, 0)
	b = appendField(b, 1, []byte(name))
	b = appendField(b, 2, appendField(nil, 1, object))
	binary.BigEndian.PutUint32(b[begin:], uint32(len(b)-begin-4)) //nolint:gosec // small
	return b
}

// protobufWriter is the state of an answer.
type protobufWriter struct {
	*canned
	w               io.Writer
	out, pod, alone []byte
}

// podEvent appends an event about a pod.
func (p *protobufWriter) podEvent(name string, n int, rv int64) {
	p.pod = p.appendPod(p.pod[:0], n, rv)
	p.alone = inEnvelope(p.alone[:0], "Pod", p.pod)
	p.out = appendEvent(p.out, name, p.alone)
}

// full writes what there is if it is much.
func (p *protobufWriter) full(most int) error {
	if len(p.out) <= most {
		return nil
	}
	_, err := p.w.Write(p.out)
	p.out = p.out[:0]
	return err
}

// version is the state of a pod.
func (c *canned) version(n int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rvs[n]
}

// prepare encodes the pods.
func (c *canned) prepare(w http.ResponseWriter, _ *http.Request) {
	c.once.Do(func() {
		if err := c.encode(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// protobuf answers as pods does.
func (c *canned) protobuf(w http.ResponseWriter, r *http.Request) {
	c.prepare(w, r)
	w.Header().Set("Content-Type", typeProtobuf)
	p := &protobufWriter{canned: c, w: w}
	q := r.URL.Query()
	if q.Get("watch") == "" {
		_ = p.list() // a client that is gone
		return
	}
	if q.Get("sendInitialEvents") == "true" && p.initial() != nil {
		return
	}
	flush := http.NewResponseController(w).Flush
	for {
		_ = p.full(0) // a client that is gone is found by its context
		_ = flush()
		select {
		case <-r.Context().Done():
			return
		case o := <-c.orders:
			if o.gone {
				c.mu.Lock()
				c.rv++
				c.mu.Unlock()
				p.gone()
				return
			}
			if p.events(o) != nil {
				return
			}
		}
	}
}

func (p *protobufWriter) list() error {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(p.now(), 10)}
	raw, err := meta.Marshal()
	if err != nil {
		return err
	}
	raw = appendField(nil, 1, raw)
	size := len(raw)
	for n := range p.rvs {
		p.pod = p.appendPod(p.pod[:0], n, p.version(n))
		size += len(p.pod) + 1 + len(binary.AppendUvarint(nil, uint64(len(p.pod))))
	}
	p.out = append(p.out, "k8s\x00"...)
	p.out = appendField(p.out, 1, appendField(appendField(nil, 1, []byte("v1")), 2, []byte("PodList")))
	p.out = append(binary.AppendUvarint(append(p.out, 2<<3|2), uint64(size)), raw...) //nolint:gosec // not negative
	for n := range p.rvs {
		p.pod = p.appendPod(p.pod[:0], n, p.version(n))
		p.out = appendField(p.out, 2, p.pod)
		if err := p.full(256 << 10); err != nil {
			return err
		}
	}
	p.out = append(p.out, 3<<3|2, 0, 4<<3|2, 0)
	return p.full(0)
}

func (p *protobufWriter) initial() error {
	for n := range p.rvs {
		p.podEvent("ADDED", n, p.version(n))
		if err := p.full(256 << 10); err != nil {
			return err
		}
	}
	mark := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatInt(p.now(), 10),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	raw, err := mark.Marshal()
	if err != nil {
		return err
	}
	p.out = appendEvent(p.out, "BOOKMARK", inEnvelope(nil, "Pod", raw))
	return p.full(0)
}

func (p *protobufWriter) events(o order) error {
	for k := range o.events {
		n := k % min(o.of, len(p.rvs))
		p.mu.Lock()
		p.rv++
		p.rvs[n] = p.rv
		rv := p.rv
		p.mu.Unlock()
		p.podEvent("MODIFIED", n, rv)
		if err := p.full(32 << 10); err != nil {
			return err
		}
	}
	return p.full(0)
}

func (p *protobufWriter) gone() {
	status := metav1.Status{
		Status: metav1.StatusFailure, Message: "too old resource version", Reason: metav1.StatusReasonExpired,
		Code: http.StatusGone,
	}
	raw, err := status.Marshal()
	if err != nil {
		return // generated code has no reason to
	}
	p.out = appendEvent(p.out, "ERROR", inEnvelope(nil, "Status", raw))
	_ = p.full(0) // it is the end in any case
}

// protobuf says that the run is one of protobuf, which [informer.For] asks for.
func (o runOptions) protobuf() bool {
	return strings.Contains(o.subject, "protobuf") || o.subject == "encoded"
}

func post(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("post %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post %s: %s", url, resp.Status)
	}
	return nil
}

// protobufRows compare what is read in protobuf.
func protobufRows() []row {
	const theirs, ours = "client-go typed protobuf", "typed protobuf"
	var all []row
	for _, how := range []string{", list, 1 handlers", ", stream, 1 handlers"} {
		name := map[string]string{", list, 1 handlers": "LIST"}[how]
		if name == "" {
			name = "streaming list"
		}
		name = "protobuf, " + name
		all = append(
			all,
			row{what: "retained per pod", on: name, of: retained, unit: "B", theirs: theirs + how, our: ours + how, atMost: 0.6},
			row{
				what: "first sync, wall", on: name, of: func(f figures) float64 { return f.SyncWall }, unit: "s",
				theirs: theirs + how, our: ours + how, atMost: 0.6,
			},
			row{
				what: "first sync, CPU", on: name, of: func(f figures) float64 { return f.SyncCPU }, unit: "s",
				theirs: theirs + how, our: ours + how,
			},
			row{
				what: "first sync, peak over base", on: name, of: func(f figures) float64 { return f.SyncPeak / f.Base },
				unit:   "x",
				theirs: theirs + how, our: ours + how, ownAtMost: 1.15,
			},
			row{
				what: "410, nothing changed, wall", on: name, of: func(f figures) float64 { return f.GoneWall }, unit: "s",
				theirs: theirs + how, our: ours + how, atMost: 0.5,
			},
			row{
				what: "410, handler calls", on: name, of: func(f figures) float64 { return f.GoneCalls },
				theirs: theirs + how, our: ours + how,
			},
			row{
				what: "events", on: name, of: func(f figures) float64 { return f.Events }, unit: "/s",
				theirs: theirs + how, our: ours + how, atLeast: 1.5,
			},
			row{
				what: "CPU per event", on: name, of: func(f figures) float64 { return f.EventCPU }, unit: "us",
				theirs: theirs + how, our: ours + how,
			},
			row{
				what: "allocations per event", on: name, of: func(f figures) float64 { return f.Mallocs },
				theirs: theirs + how, our: ours + how, ownAtMost: 60,
			},
		)
	}
	return append(all, row{
		what: "retained per pod", on: "protobuf, without managed fields", of: retained, unit: "B",
		theirs: theirs + ", list, 1 handlers", our: ours + " stripped, list, 1 handlers",
	})
}
