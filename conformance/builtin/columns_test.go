package builtin

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// columnsRun compares the tables of one resource.
type columnsRun struct {
	resource *kinds.Resource
	upstream *upstreamTables
	found    map[string]string // by "resource | what": an example
	objects  int               // with a table at upstream
	agree    int
	without  int
	name     string
	theirs   []runtime.Object // of the manifests
	ours     []*wire.Object
}

// TestColumns shows each manifest of testdata/columns, mutations of it, all manifests of
// a kind as a list, and the empty object of a bookmark, as tables on both.
func TestColumns(t *testing.T) {
	now := time.Now()
	bodies := columnManifests(t, now)
	upstream := newUpstreamTables()
	found := map[string]string{}
	all := listed(builtin.Catalog())
	for _, name := range slices.Sorted(maps.Keys(all)) {
		run := &columnsRun{resource: all[name], name: name, upstream: upstream, found: found}
		manifests := bodies[name]
		if len(manifests) == 0 {
			t.Errorf("testdata/columns has no object of %s", name)
			continue
		}
		run.bookmark(t)
		for _, body := range manifests {
			run.manifest(t, body)
		}
		run.list(t)
		t.Logf("%-55s %3d manifests, %5d objects, %5d agree, %5d differ, %3d without a table",
			name, len(manifests), run.objects, run.agree, run.objects-run.agree, run.without)
		delete(bodies, name)
	}
	for name := range bodies {
		t.Errorf("testdata/columns has objects of %s, which no resource lists", name)
	}
	Judge(t, "columns_differences.txt", found)
}

// columnManifests returns the objects in testdata/columns as JSON, by resource.
func columnManifests(t *testing.T, now time.Time) map[string][][]byte {
	t.Helper()
	byKind := map[string]string{}
	for name, r := range listed(builtin.Catalog()) {
		byKind[r.APIVersion()+" "+r.Kind] = name
	}
	files, err := filepath.Glob("testdata/columns/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	bodies := map[string][][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		dated, err := atMoment(string(text), now)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for doc := range strings.SplitSeq(dated, "\n---\n") {
			body, err := yaml.YAMLToJSONStrict([]byte(doc))
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, doc)
			}
			var head struct{ APIVersion, Kind string }
			if err := json.Unmarshal(body, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			name, known := byKind[head.APIVersion+" "+head.Kind]
			if !known {
				t.Fatalf("%s: no resource has the kind %s %s", file, head.APIVersion, head.Kind)
			}
			bodies[name] = append(bodies[name], body)
		}
	}
	return bodies
}

// manifest compares an object and its mutations.
func (c *columnsRun) manifest(t *testing.T, body []byte) {
	t.Helper()
	stored, err := c.upstream.stored(c.resource, body)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	theirs, ours := c.read(t, stored)
	c.theirs, c.ours = append(c.theirs, theirs), append(c.ours, ours)
	if !c.object(t, ours.Key().Name, theirs, ours) {
		t.Fatalf("upstream has no table of\n%s", body)
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	for _, mutated := range Mutate(tree, Full, func(path string) bool { return path == "kind" || path == "apiVersion" }) {
		stored, err := c.upstream.stored(c.resource, mutated.Body)
		if err != nil {
			continue // upstream refuses it
		}
		theirs, ours := c.read(t, stored)
		c.object(t, string(mutated.Body), theirs, ours)
	}
}

// read reads the stored form of an object on both.
func (c *columnsRun) read(t *testing.T, stored []byte) (runtime.Object, *wire.Object) {
	t.Helper()
	theirs, err := c.upstream.read(c.resource, stored)
	if err != nil {
		t.Fatalf("upstream: %v\n%s", err, stored)
	}
	ours, err := wire.ParseObject(stored, c.resource.Fields)
	if err != nil {
		t.Fatalf("gapless: %v\n%s", err, stored)
	}
	return theirs, ours
}

// bookmark compares the row of a bookmark.
func (c *columnsRun) bookmark(t *testing.T) {
	t.Helper()
	theirs, err := c.upstream.bookmark(c.resource)
	if err != nil {
		t.Fatalf("bookmark upstream: %v", err)
	}
	ours, err := wire.ParseObject(
		[]byte(`{"kind":"`+c.resource.Kind+`","apiVersion":"`+c.resource.APIVersion()+`","metadata":{"resourceVersion":"7"}}`),
		c.resource.Fields)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	c.object(t, "a bookmark", theirs, ours)
}

// object compares the tables of one object, and reports whether upstream has one; what
// says which object it is.
func (c *columnsRun) object(t *testing.T, what string, theirs runtime.Object, ours *wire.Object) bool {
	t.Helper()
	for last := false; ; last = true {
		upstream, err := c.upstream.one(c.resource, theirs)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		gapless, err := gaplessOne(c.resource, ours)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if upstream == nil {
			c.without++
			return false
		}
		differ := compareRows(upstream, gapless)
		if len(differ) == 0 || last {
			c.rows(what, differ)
			return true
		}
		// An age may have changed between the two.
	}
}

// list compares the table of all manifests.
func (c *columnsRun) list(t *testing.T) {
	t.Helper()
	upstream, err := c.upstream.list(c.resource, c.theirs)
	if err != nil || upstream == nil {
		t.Fatalf("upstream has no table of the list: %v", err)
	}
	gapless, err := gaplessList(c.resource, c.ours)
	if err != nil {
		t.Fatalf("gapless list: %v", err)
	}
	c.note("the list", compareColumns(upstream, gapless))
	c.rows("the list", compareRows(upstream, gapless))
}

// rows counts the object of what, whose rows differ so.
func (c *columnsRun) rows(what string, differ differing) {
	c.objects++
	if len(differ) == 0 {
		c.agree++
	}
	c.note(what, differ)
}

// note keeps the differences in what that no other object had.
func (c *columnsRun) note(what string, differ differing) {
	for at, example := range differ {
		key := c.name + " | " + at
		if c.found[key] == "" {
			c.found[key] = example + " in " + what
		}
	}
}
