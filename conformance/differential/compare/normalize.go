package compare

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

// farAhead is further than a script can get: what is beyond is in the future.
const farAhead = 100_000

// normalizer knows the writes of a transcript and the uids it met.
type normalizer struct {
	writes []write // by resource version
	uids   map[string]string
	line   int // of the step that is looked at
	here   int // how many uids it was the first to show
}

type write struct {
	rv   int64
	line int
}

func newNormalizer(t play.Transcript) *normalizer {
	n := &normalizer{uids: map[string]string{}}
	for _, r := range t.Results {
		read := r.Step.Method == http.MethodGet || r.Step.Method == http.MethodHead
		if r.Step.Verb != script.Request || read || r.Answer == nil || r.Answer.Code/100 != 2 {
			continue
		}
		text, err := script.Member(r.Answer.Body, ".metadata.resourceVersion")
		rv, err2 := strconv.ParseInt(text, 10, 64)
		known := func(w write) bool { return w.rv == rv }
		if err == nil && err2 == nil && !slices.ContainsFunc(n.writes, known) {
			n.writes = append(n.writes, write{rv: rv, line: r.Step.Line})
		}
	}
	slices.SortFunc(n.writes, func(a, b write) int { return int(a.rv - b.rv) })
	return n
}

// rv puts a resource version into words. Those of objects are exact.
func (n *normalizer) rv(text string, exact bool) string {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v <= 0 {
		return text
	}
	last := write{}
	for _, w := range n.writes {
		if w.rv <= v {
			last = w
		}
	}
	switch {
	case last.line == 0:
		return "before all"
	case v-last.rv > farAhead:
		return "in the future"
	case !exact:
		return fmt.Sprintf("as of line %d", last.line)
	case last.rv == v:
		return fmt.Sprintf("of line %d", last.line)
	}
	return fmt.Sprintf("after line %d", last.line)
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	age     = regexp.MustCompile(`^(\d+[smhd]){1,2}$`)
	about   = regexp.MustCompile(`(?i)resource ?version`)
	number  = regexp.MustCompile(`([ (])(\d+)\b`)
)

// text puts what differs by nature into symbols.
func (n *normalizer) text(s string) string {
	s = uid.ReplaceAllStringFunc(s, n.uid)
	s = instant.ReplaceAllString(s, "<time>")
	s = address.ReplaceAllString(s, "<address>")
	return s
}

func (n *normalizer) uid(s string) string {
	if n.uids[s] == "" {
		n.here++
		n.uids[s] = fmt.Sprintf("<uid-%d.%d>", n.line, n.here) // that of the step which shows it first
	}
	return n.uids[s]
}

// message is text in which numbers are resource versions, if it is about those.
func (n *normalizer) message(s string) string {
	s = n.text(s)
	if !about.MatchString(s) {
		return s
	}
	return number.ReplaceAllStringFunc(s, func(v string) string { return v[:1] + n.rv(v[1:], false) })
}

// document adds a fact for each leaf. around says what the document is part of: an
// object's metadata are read differently in a list and in a bookmark.
func (f *facts) document(part string, doc any, around string) {
	switch doc := doc.(type) {
	case map[string]any:
		f.object(part, doc, around)
	case []any:
		if len(doc) == 0 {
			f.add(part, "[]")
		}
		for i, item := range doc {
			f.document(fmt.Sprintf("%s[%d]", part, i), item, around)
		}
	case string:
		f.add(part, f.text(doc))
	case json.Number:
		f.add(part, doc.String())
	default:
		f.add(part, fmt.Sprint(doc))
	}
}

func (f *facts) object(part string, object map[string]any, around string) {
	if len(object) == 0 {
		f.add(part, "{}")
	}
	if kind, ok := object["kind"].(string); ok && around != "bookmark" {
		switch {
		case kind == "Status":
			around = "status"
		case strings.HasSuffix(kind, "List") || kind == "Table":
			around = "list"
		default:
			around = ""
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at, value := part+"."+key, object[key]
		if text, ok := value.(string); ok {
			f.add(at, f.member(object, key, text, around))
			continue
		}
		below := around
		switch key {
		case "managedFields":
			value = byManager(value)
		case "items":
			below = ""
		case "cells":
			f.cells(at, value)
			continue
		}
		f.document(at, value, below)
	}
}

// byManager sorts managedFields by who manages: their order is that of their times in
// seconds, which differs where a write of one server falls into the next second.
func byManager(value any) any {
	entries, ok := value.([]any)
	if !ok {
		return value
	}
	key := func(entry any) string {
		e, _ := entry.(map[string]any)
		return fmt.Sprint(e["operation"], " ", e["manager"], " ", e["subresource"], " ", e["apiVersion"])
	}
	return slices.SortedStableFunc(slices.Values(entries), func(a, b any) int { return strings.Compare(key(a), key(b)) })
}

// tokenVolume begins the names of volumes with tokens, which the plugin ServiceAccount adds.
const tokenVolume = "kube-api-access-"

// member puts a string member into words.
func (f *facts) member(object map[string]any, key, text, around string) string {
	switch {
	case key == "resourceVersion":
		return f.rv(text, around == "")
	case key == "continue" && text != "":
		return f.token(text)
	case key == "message":
		return f.message(text)
	case key == "name":
		if prefix, ok := object["generateName"].(string); ok && len(text) == len(prefix)+5 && strings.HasPrefix(text, prefix) {
			return prefix + "<5 letters>"
		}
		if len(text) == len(tokenVolume)+5 && strings.HasPrefix(text, tokenVolume) {
			return tokenVolume + "<5 letters>"
		}
	}
	return f.text(text)
}

// cells hide ages, which pass.
func (f *facts) cells(part string, value any) {
	cells, ok := value.([]any)
	if !ok {
		f.document(part, value, "")
		return
	}
	for i, cell := range cells {
		if text, ok := cell.(string); ok && age.MatchString(text) {
			cell = "<age>"
		}
		f.document(fmt.Sprintf("%s[%d]", part, i), cell, "")
	}
}

// token says what a continue token means: upstream's cache writes a slash before
// the key and its storage does not, and both read either.
func (f *facts) token(text string) string {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var token struct {
		V     string
		RV    int64
		Start string
	}
	if err != nil || json.Unmarshal(raw, &token) != nil {
		return "a token of another form"
	}
	at := "at the latest"
	if token.RV > 0 {
		at = f.rv(strconv.FormatInt(token.RV, 10), false)
	}
	return fmt.Sprintf("%s from %q %s", token.V, strings.TrimPrefix(token.Start, "/"), at)
}
