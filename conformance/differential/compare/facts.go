// Package compare finds the differences between two transcripts of one script, and
// which of them are deliberate.
//
// A [Fact] is one thing that can be seen in an answer or on a stream, in which symbols replace
// everything that two correct servers need not agree about: resource versions, uids, times,
// addresses, the order of members. A [Difference] is a fact that two transcripts do not share.
// A [Deliberate] entry is a kind of difference that is intended, and why. A [Table] is all of
// those; it accounts for every difference, and knows when an entry accounts for none any more.
//
// A resource version that a write was answered with is called "of line 12", after
// the line of the write; one in between is "after line 12". Those of lists and
// bookmarks are "as of line 12" in both cases, since other things than objects have
// revisions.
package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

// Fact is one thing that a step showed.
type Fact struct {
	Case string
	// Line and Text are the step's.
	Line int
	Text string
	// Part says which thing: "code", "header Vary", "body.items[0].kind",
	// "frame 2.type", "end how".
	Part string
	// Value is what a person compares.
	Value string
}

// seen are the headers that matter to clients.
var seen = []string{ //nolint:gochecknoglobals // a compiled table
	"Content-Type", "Content-Encoding", "Cache-Control", "Retry-After", "Vary", "Warning", "Location", "Allow",
	"Upgrade", "Connection", "Sec-Websocket-Protocol",
}

// Facts are what a transcript shows, in its order.
func Facts(t play.Transcript) []Fact {
	n := newNormalizer(t)
	var all []Fact
	for _, r := range t.Results {
		n.line, n.here = r.Step.Line, 0
		f := facts{normalizer: n, result: r}
		f.take()
		all = append(all, f.list...)
	}
	if t.Stopped != "" {
		all = append(all, Fact{Case: t.Results[len(t.Results)-1].Case, Part: "stopped", Value: t.Stopped})
	}
	return all
}

// facts collects those of one result.
type facts struct {
	*normalizer
	result play.Result
	list   []Fact
}

func (f *facts) add(part, value string) {
	step := f.result.Step
	f.list = append(f.list, Fact{Case: f.result.Case, Line: step.Line, Text: step.Text, Part: part, Value: value})
}

func (f *facts) take() {
	r := f.result
	if r.Answer != nil {
		f.answer(*r.Answer, r.Step)
	}
	if r.Said != "" {
		f.add("said", r.Said)
	}
	switch r.Step.Verb {
	case script.Read, script.Quiet, script.End:
		frames := fewerBookmarks(r.Frames)
		f.add("frames", fmt.Sprint(len(frames)))
		for i, frame := range frames {
			f.frame(fmt.Sprintf("frame %d", i+1), frame)
		}
	case script.Request, script.Capture, script.Keep, script.Edit, script.Compare, script.Watch, script.Socket, script.Ping,
		script.Close, script.Await, script.Compact, script.Forget, script.Restart, script.Crash, script.Pause, script.Join:
	}
	if r.Ending != nil {
		f.add("end how", r.Ending.How)
		if r.Ending.How != "open" && r.Ending.SinceOpen > 0 {
			f.add("end when", endClass(r.Ending.Moment))
		}
	}
}

func (f *facts) answer(a play.Answer, step script.Step) {
	if a.Failed != nil {
		f.add("failed", "the connection broke")
		return
	}
	f.add("code", fmt.Sprint(a.Code))
	if step.CodeOnly {
		return
	}
	if step.Method == http.MethodGet { // how long a write takes is no part of the protocol
		f.add("when", answerClass(a.Took))
	}
	for _, name := range seen {
		if values := a.Header.Values(name); len(values) > 0 {
			f.add("header "+name, f.text(strings.Join(values, ", ")))
		}
	}
	if step.Verb == script.Watch && a.Code == http.StatusOK {
		f.add("header Transfer-Encoding", a.Header.Get("Transfer-Encoding"))
	}
	if step.Verb == script.Request || len(a.Body) > 0 {
		body := a.Body
		if a.Header.Get("Content-Type") == "application/yaml" {
			if converted, err := yaml.YAMLToJSON(body); err == nil {
				body = converted
			}
		}
		f.body("body", body)
	}
}

// body says what a body has, be it one document, one on each line, or text.
func (f *facts) body(part string, raw []byte) {
	doc, one := decode(raw)
	switch {
	case one:
		f.add(part+" form", form(raw))
		f.document(part, doc, "")
		return
	case len(raw) == 0:
		f.add(part, "empty")
		return
	}
	lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		doc, ok := decode(line)
		if !ok {
			f.add(part, f.text(string(raw)))
			return
		}
		f.event(fmt.Sprintf("line %d", i+1), doc)
	}
	f.add("lines", fmt.Sprint(len(lines)))
}

func decode(raw []byte) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var doc any
	err := dec.Decode(&doc)
	return doc, err == nil && len(bytes.TrimSpace(raw[dec.InputOffset():])) == 0
}

// form says how a document is laid out.
func form(raw []byte) string {
	layout := "compact"
	if i := bytes.IndexByte(raw, '\n'); i >= 0 && i < len(raw)-1 {
		layout = "indented"
	}
	if bytes.HasSuffix(raw, []byte("\n")) {
		layout += ", ends its line"
	}
	return layout
}

func (f *facts) frame(part string, frame play.Frame) {
	doc, ok := decode(frame.Raw)
	if !ok {
		f.add(part, f.text(string(frame.Raw)))
		return
	}
	f.add(part+" when", frameClass(frame.Moment, bookmark(doc)))
	f.event(part, doc)
}

// event is a document of which a bookmark's resource version is not an object's.
func (f *facts) event(part string, doc any) {
	around := ""
	if isBookmark(doc) {
		around = "bookmark"
	}
	f.document(part, doc, around)
}

func isBookmark(doc any) bool {
	event, ok := doc.(map[string]any)
	return ok && event["type"] == "BOOKMARK"
}

// bookmark reports whether a document is one that was not asked for by an event: not
// the one that ends the initial events.
func bookmark(doc any) bool {
	raw, err := json.Marshal(doc)
	return err == nil && isBookmark(doc) && !bytes.Contains(raw, []byte("k8s.io/initial-events-end"))
}

// fewerBookmarks leaves the last of bookmarks that follow each other, but for those
// that come each minute: a server may send as many as it likes, and upstream now and
// then sends one in between.
func fewerBookmarks(frames []play.Frame) []play.Frame {
	var out []play.Frame
	last := ""
	for _, frame := range frames {
		doc, ok := decode(frame.Raw)
		class := ""
		if ok && bookmark(doc) {
			class = frameClass(frame.Moment, true)
		}
		if class != "" && last != "" && last != eachMinute {
			out = out[:len(out)-1]
		}
		out, last = append(out, frame), class
	}
	return out
}

// Times are compared in classes, which are as wide as a busy machine needs.
const (
	atOnce     = "at once"
	afterWait  = "after 3 s"
	eachMinute = "each minute"
)

func answerClass(took time.Duration) string {
	switch {
	case took < 1800*time.Millisecond:
		return atOnce
	case took > 2500*time.Millisecond && took < 5*time.Second:
		return afterWait // apiserver cacher/watch_cache.go blockTimeout
	}
	return fmt.Sprintf("after %v", took.Round(time.Second))
}

// frameClass places a frame. Upstream sends bookmarks 2 s before the deadline, and
// up to 1.25 s late (apiserver cacher/cacher.go, bookmarkFrequency).
func frameClass(m play.Moment, bookmark bool) string {
	switch {
	case bookmark && m.Deadline > 0 && m.Deadline-m.SinceOpen < 2300*time.Millisecond:
		return "before the deadline"
	case bookmark && m.SinceOpen > 57*time.Second && m.SinceOpen%time.Minute < 5*time.Second:
		return eachMinute
	case bookmark && m.SinceOpen > 57*time.Second && m.SinceOpen%time.Minute > 57*time.Second:
		return eachMinute
	}
	return answerClass(m.SinceAction)
}

func endClass(m play.Moment) string {
	if late := m.SinceOpen - m.Deadline; m.Deadline > 0 && late > -300*time.Millisecond && late < 2*time.Second {
		return "at the deadline"
	}
	return answerClass(m.SinceAction)
}
