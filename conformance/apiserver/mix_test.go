package apiserver_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/conformance/apiserver/mix"
	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/suite"
)

var (
	mixFor    = flag.Duration("mix", 0, "how long random writes are compared, instead of a few seeds")
	mixSeed   = flag.Uint64("seed", 0, "the first seed of -mix, or the only one; 0: a fresh one")
	mixReplay = flag.String("replay", "", "a script that TestMix printed, to be played instead of seeds")
	mixOnly   = flag.String("only", "", "a part of the difference that -mix looks for, as it prints it")
	mixList   = flag.Bool("list", false, "list all differences of a seed instead of fewer moves that show the first")
)

// mixMoves is how many moves a seed has.
const mixMoves = 150

// TestMix plays random moves on all servers, and fails for a difference that the table does not have. It prints fewer moves
// that show the first one, as a script. Besides seeds that always are the same it plays a fresh one, whose differences it
// logs; with -mix they fail it. What differs only once is what kube-apiserver's plugins, which follow objects
// in caches, had not seen yet: it is logged.
func TestMix(t *testing.T) {
	// Plugins that refuse what others look at are off.
	on := append(slices.Clone(others), "StorageObjectInUseProtection")
	m := &mixed{
		servers: start(t, setup{on: on, flags: []string{
			"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24,fd00::/112",
		}}),
		table: suite.Table(t, differences), seen: map[string]bool{},
	}
	if *mixReplay != "" {
		m.replay(t, *mixReplay)
		return
	}
	seeds := []uint64{301, 302, 303}
	m.fresh = rand.Uint64N(1 << 32)
	switch {
	case *mixSeed != 0:
		seeds = []uint64{*mixSeed}
	case *mixFor != 0:
		seeds = []uint64{m.fresh}
	default:
		seeds = append(seeds, m.fresh)
	}
	for began, i := time.Now(), 0; i < len(seeds); i++ {
		m.seed(t, seeds[i])
		if time.Since(began) < *mixFor {
			seeds = append(seeds, seeds[i]+1)
		}
	}
}

// mixed are the servers of a mix.
type mixed struct {
	*servers
	table  compare.Table
	played int
	seen   map[string]bool // what was printed
	fresh  uint64          // a seed that nobody has played before
}

// seed plays the moves of one.
func (m *mixed) seed(t *testing.T, seed uint64) {
	t.Helper()
	moves, first, last := mix.Generate(seed, mixMoves)
	found := slices.DeleteFunc(m.differences(t, moves), func(d compare.Difference) bool {
		return !strings.Contains(d.String(), *mixOnly)
	})
	t.Logf("seed %d: %d moves, %d differences", seed, len(moves), len(found))
	if known := seed != m.fresh || *mixFor != 0; !known { // whoever changed something else is not to mend it
		for _, d := range found {
			t.Logf("seed %d, to be looked at with -seed %d: %v", seed, seed, d)
		}
		return
	}
	if *mixList {
		codes := false
		for _, d := range found {
			end := strings.HasPrefix(d.Case, "LIST") && codes // what the one has and the other has not
			codes = codes || d.Part == "code"
			if kind := position.ReplaceAllString(d.Part, "[]") + d.Upstream + d.Gapless; !end && !m.seen[kind] {
				m.seen[kind] = true
				t.Errorf("seed %d: %v", seed, d)
			}
		}
		return
	}
	if len(found) == 0 || m.seen[kindOf(found[0])] {
		return
	}
	m.seen[kindOf(found[0])] = true
	m.shrink(t, seed, moves, first, last, found[0])
}

// shrink prints what shows a difference.
func (m *mixed) shrink(t *testing.T, seed uint64, moves []mix.Move, first, last int, d compare.Difference) {
	t.Helper()
	end := time.Now().Add(5 * time.Minute)
	fails := func(moves []mix.Move) (still, more bool) {
		again := m.differences(t, moves)
		still = slices.ContainsFunc(again, func(other compare.Difference) bool { return kindOf(other) == kindOf(d) })
		return still, time.Now().Before(end)
	}
	if still, _ := fails(moves); !still {
		t.Logf("seed %d: once, and not again: %v", seed, d)
		return
	}
	// What comes after it is left out first.
	line := 2
	for i, move := range moves {
		if line += len(move.Lines); line > d.Line {
			last = i
			break
		}
	}
	if still, _ := fails(moves[:last+1]); still {
		moves = moves[:last+1]
	}
	moves = mix.Shrink(moves, first, fails)
	var texts []string
	for _, d := range m.differences(t, moves) {
		texts = append(texts, d.String())
	}
	t.Errorf("seed %d: not in the table:\n%s\nfewer moves that show it:\n%s", seed, strings.Join(texts, "\n"),
		mix.Text(moves))
}

// replay plays a file.
func (m *mixed) replay(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	moves, err := mix.Moves("mix", string(text))
	if err != nil {
		t.Fatalf("parse %s: %v", file, err)
	}
	for _, d := range m.differences(t, moves) {
		t.Errorf("not in the table: %v", d)
	}
}

// position is an index in the path of a fact.
var position = regexp.MustCompile(`\[\d+\]`)

// kindOf is what two differences share that have one cause, most likely.
func kindOf(d compare.Difference) string {
	return d.Case + "|" + position.ReplaceAllString(d.Part, "[]")
}

// differences plays moves, tidies up, and returns what is not in the table, those of both stores, by line.
func (m *mixed) differences(t *testing.T, moves []mix.Move) []compare.Difference {
	t.Helper()
	m.played++
	name := fmt.Sprintf("m%d", m.played)
	one, err := mix.Script(name, moves)
	if err != nil {
		t.Fatalf("make a script: %v", err)
	}
	p := m.play(t, one)
	for _, transcript := range []play.Transcript{p.upstream, p.gapless, p.replica} {
		for _, r := range transcript.Results {
			if r.Answer != nil {
				r.Answer.Body = comparable(r.Answer.Body)
			}
		}
	}
	var all []compare.Difference
	for i, transcript := range []play.Transcript{p.gapless, p.replica} {
		for _, d := range compare.Differences("mix", p.upstream, transcript) {
			if _, meant := m.table.Find(d); meant || slices.ContainsFunc(all, func(other compare.Difference) bool {
				return other.Line == d.Line && other.Part == d.Part && other.Gapless == d.Gapless
			}) {
				continue
			}
			d.Script += []string{" directory", " etcd"}[i]
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b compare.Difference) int { return a.Line - b.Line })
	all = essential(all)
	for _, s := range []*server{m.upstream, m.gapless, m.replica} {
		s.tidy(t, name)
	}
	return all
}

// essential leaves out what must differ where codes do, and the form of what comparable has encoded again.
func essential(all []compare.Difference) []compare.Difference {
	codes := map[int]bool{}
	for _, d := range all {
		codes[d.Line] = codes[d.Line] || d.Part == "code"
	}
	return slices.DeleteFunc(all, func(d compare.Difference) bool {
		said := d.Part == "code" || d.Part == "body.message" || d.Part == "body.reason" || strings.HasPrefix(d.Part,
			"body.details.causes.")
		// What else a server writes meanwhile has revisions too.
		list := strings.HasPrefix(d.Case, "DELETE all") || strings.HasPrefix(d.Case, "LIST")
		listed := list && d.Part == "body.metadata.resourceVersion"
		return codes[d.Line] && !said || listed || d.Part == "body form"
	})
}

var (
	// generatedName is one that a server has made.
	generatedName = regexp.MustCompile(`\b(gen|Bad)-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	// wholeValue is an object or a list that a cause prints: the members of upstream's internal types are others.
	wholeValue = regexp.MustCompile(`(Invalid|Duplicate|Unsupported) value: (?:null|\{.*\}|\[.*\])`)
	someUID    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// ownerKey names an owner in managedFields.
	ownerKey = regexp.MustCompile(`k:\{\\"uid\\":\\"[^\\]*\\"\}`)
	// takenPort is a node port that a server has chosen, twice.
	takenPort = regexp.MustCompile(`(Duplicate value): 3\d{4}`)
	// immutable prints a value, of which an internal type may be a pointer.
	immutable = regexp.MustCompile(`Invalid value: .*(: field is immutable)`)
	// required is followed by words of the former rules, which gapless has.
	required = regexp.MustCompile(`(Required value): .*`)
	// converting names upstream's internal types.
	converting = regexp.MustCompile(`converting \(\S*\) to \(\S*\)`)
)

// comparable puts the causes of a refusal, each with its field, into an object: in which order the rules are tried is nobody's
// business. The message, which has them too, is then left out.
func comparable(body []byte) []byte {
	body = generatedName.ReplaceAll(body, []byte("$1-<5 letters>"))
	body = ownerKey.ReplaceAll(body, []byte(`k:{\"uid\"}`))
	var all map[string]any
	if json.Unmarshal(body, &all) != nil || all["kind"] != "Status" {
		return body
	}
	short := func(text any) string {
		line, _, _ := strings.Cut(fmt.Sprint(text), "\n") // how immutable specs differ
		line = takenPort.ReplaceAllString(immutable.ReplaceAllString(line, "Invalid value$1"), "$1: <port>")
		line = converting.ReplaceAllString(line, "converting")
		return wholeValue.ReplaceAllString(required.ReplaceAllString(line, "$1"), "$1 value: {…}")
	}
	all["message"] = short(all["message"])
	details, _ := all["details"].(map[string]any)
	if causes, is := details["causes"].([]any); is {
		set := map[string]any{}
		for _, c := range causes {
			c, _ := c.(map[string]any)
			set[someUID.ReplaceAllString(fmt.Sprint(c["field"], ": ", c["reason"], ": ", short(c["message"])),
				"<uid>")] = "there"
		}
		details["causes"] = set
		if len(causes) > 0 {
			delete(all, "message")
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return body
	}
	return raw
}

// tidy deletes what moves have left, as addresses, ports and defaults are the cluster's.
func (s *server) tidy(t *testing.T, name string) {
	t.Helper()
	for _, collection := range mix.Collections() {
		if !strings.Contains(collection, "%s") {
			s.empty(t, collection, "?labelSelector=mix%3D"+name)
			continue
		}
		for _, namespace := range mix.Namespaces(name) {
			s.empty(t, fmt.Sprintf(collection, namespace), "")
		}
	}
	namespaces := mix.Namespaces(name)
	for i := range 4 {
		namespaces = append(namespaces, fmt.Sprintf("%s-other%d", name, i))
	}
	for _, namespace := range namespaces {
		path := "/api/v1/namespaces/" + namespace
		s.send(t, http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		s.send(t, http.MethodDelete, path, "")
		s.send(t, http.MethodPut, path+"/finalize", `{"metadata":{"name":"`+namespace+`"},"spec":{"finalizers":[]}}`)
	}
}

// empty deletes the objects of a collection, whatever waits for them.
func (s *server) empty(t *testing.T, collection, query string) {
	t.Helper()
	var objects struct {
		Items []struct {
			Metadata struct {
				Name       string
				Finalizers []string
			}
		}
	}
	if err := json.Unmarshal(s.send(t, http.MethodGet, collection+query, ""), &objects); err != nil {
		t.Fatalf("read %s: %v", collection, err)
	}
	for _, o := range objects.Items {
		path := collection + "/" + o.Metadata.Name
		s.send(t, http.MethodDelete, path+"?gracePeriodSeconds=0&propagationPolicy=Background", "")
		if len(o.Metadata.Finalizers) > 0 {
			s.send(t, http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		}
	}
}

// send sends a request whatever is answered, on a connection that is kept.
func (s *server) send(t *testing.T, method, path, body string) []byte {
	t.Helper()
	if s.tidier == nil {
		s.tidier = &http.Transport{TLSClientConfig: s.target.TLS.Clone()}
		t.Cleanup(s.tidier.CloseIdleConnections)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.target.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+s.target.Token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	_, answer, err := roundTrip(s.tidier, req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}
