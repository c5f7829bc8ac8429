package builtin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kubeopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/gapless-io/gapless/conformance/builtin"
	documents "github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/kinds"
	ours "github.com/gapless-io/gapless/internal/kinds/builtin"
)

// commentsFile has what upstream's definitions say and Go types do not.
const commentsFile = "../../internal/kinds/openapi/comments.json"

// upstreamVersion3 has the documents of OpenAPI v3 that the module of k8s.io/kubernetes contains, by
// their names, as kube-apiserver serves them: with the enumerations, which are not in the files
// (hack/update-openapi-spec.sh turns them off), and without CBOR, which is off by default.
func upstreamVersion3(t *testing.T) map[string]definition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(upstreamModule(t), "api/openapi-spec/v3/*_openapi.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	enumerations := generatedDefinitions(t)
	docs := map[string]definition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		var doc definition
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		for name, def := range schemasOf(doc) {
			withEnumerations(def, enumerations[name])
		}
		withoutCBOR(doc["paths"])
		docs[strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), "_openapi.json"), "__", "/")] = doc
	}
	return docs
}

// generatedDefinitions are upstream's definitions of Go types.
func generatedDefinitions(t *testing.T) map[string]definition {
	t.Helper()
	defs := map[string]definition{}
	for name, def := range kubeopenapi.GetOpenAPIDefinitions(func(path string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + path)
	}) {
		text, err := json.Marshal(def.Schema)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		var tree definition
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		defs[name] = tree
	}
	return defs
}

// withEnumerations gives the fields of a definition the enumerations of another one, and the
// descriptions that name their values.
func withEnumerations(def, of definition) {
	theirs := propertiesOf(of)
	for field, prop := range propertiesOf(def) {
		from := theirs[field]
		if from["enum"] != nil {
			prop["description"] = from["description"]
		}
		for _, path := range [][]string{nil, {"items"}, {"additionalProperties"}, {"additionalProperties", "items"}} {
			to, source := below(prop, path), below(from, path)
			if to != nil && source["enum"] != nil {
				to["enum"] = source["enum"]
			}
		}
	}
}

func below(schema definition, path []string) definition {
	for _, step := range path {
		schema, _ = schema[step].(definition)
	}
	return schema
}

func schemasOf(doc definition) map[string]definition {
	return objectsIn(below(doc, []string{"components", "schemas"}))
}

func propertiesOf(def definition) map[string]definition {
	return objectsIn(below(def, []string{"properties"}))
}

// objectsIn are the members that are objects.
func objectsIn(o definition) map[string]definition {
	all := map[string]definition{}
	for name, value := range o {
		if value, ok := value.(definition); ok {
			all[name] = value
		}
	}
	return all
}

// withoutCBOR removes media types.
func withoutCBOR(v any) any {
	isCBOR := func(name any) bool {
		text, _ := name.(string)
		return strings.HasPrefix(text, "application/") && strings.Contains(text, "cbor")
	}
	switch v := v.(type) {
	case definition:
		maps.DeleteFunc(v, func(name string, _ any) bool { return isCBOR(name) })
		for name, child := range v {
			v[name] = withoutCBOR(child)
		}
	case []any:
		v = slices.DeleteFunc(v, isCBOR)
		for i, child := range v {
			v[i] = withoutCBOR(child)
		}
		return v
	}
	return v
}

// version3 are this module's documents.
func version3(t *testing.T) map[string]definition {
	t.Helper()
	groups := documents.NewGroups(kinds.NewLive(ours.Catalog()))
	get := func(name string) (doc definition) {
		built, err := groups.Build(t.Context(), name)
		if err != nil || built == nil {
			t.Fatalf("document %q: %v", name, err)
		}
		w := httptest.NewRecorder()
		built.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatalf("document %q: %v", name, err)
		}
		return doc
	}
	docs := map[string]definition{}
	for name := range objectsIn(below(get(""), []string{"paths"})) {
		docs[name] = get(name)
	}
	return docs
}

// TestDocumentsOfVersion3AreUpstreams compares the documents of OpenAPI v3 with those of upstream's stable
// versions: all paths, operations, parameters, bodies, answers and definitions, with their
// descriptions. What differs is in testdata/openapi_differences.txt, with the reasons, and nothing
// else is.
func TestDocumentsOfVersion3AreUpstreams(t *testing.T) {
	theirs, ours := upstreamVersion3(t), version3(t)
	found := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if doc, served := ours[name]; served {
			compareDocument(found, name, theirs[name], doc)
		} else if isStable(name, theirs) {
			found["document | "+name] = "gapless does not serve it"
		}
	}
	for name := range ours {
		if theirs[name] == nil {
			found["document | "+name] = "upstream does not have it"
		}
	}
	builtin.Judge(t, "openapi_differences.txt", found)
}

// isStable reports whether a document is about a stable version, about a group that has one, or about no
// group.
func isStable(name string, docs map[string]definition) bool {
	group, isGroup := strings.CutPrefix(name, "apis/")
	if group, version, ok := strings.Cut(group, "/"); ok && isGroup {
		return group != "" && stable.MatchString(version)
	}
	return !isGroup || slices.ContainsFunc(slices.Collect(maps.Keys(docs)), func(other string) bool {
		version, ok := strings.CutPrefix(other, name+"/")
		return ok && stable.MatchString(version)
	})
}

// discoveryPath matches where the operation of a path of discovery is: these paths end with a slash.
var discoveryPath = regexp.MustCompile("^/paths//.*//get")

// compareDocument notes what differs: paths and definitions that one document does not have by their
// names, and everything else by where it is.
func compareDocument(found map[string]string, name string, theirs, ours definition) {
	for _, members := range [][]string{{"paths"}, {"components", "schemas"}} {
		a, b := below(theirs, members), below(ours, members)
		for _, member := range slices.Sorted(maps.Keys(a)) {
			if b[member] == nil {
				found[members[len(members)-1]+" | "+member] = "only upstream has it"
				delete(a, member)
			}
		}
	}
	for _, at := range differences(theirs, ours, "") {
		key := "value | " + discoveryPath.ReplaceAllString(at.path, "/paths/(discovery)/get")
		if found[key] == "" {
			found[key] = fmt.Sprintf("in %s: upstream %v, gapless %v", name, at.theirs, at.ours)
		}
	}
}

type difference struct {
	path         string
	theirs, ours any
}

// differences compares two trees.
func differences(theirs, ours any, path string) []difference {
	a, isObject := theirs.(definition)
	b, both := ours.(definition)
	if isObject && both {
		var all []difference
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			all = append(all, differences(a[name], b[name], path+"/"+name)...)
		}
		return all
	}
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	return []difference{{path, theirs, ours}}
}

// commented is comments.json: of enumerations, and of types with their fields.
type (
	commentedField struct {
		Description string `json:"description,omitempty"`
		Default     any    `json:"default,omitempty"`
	}
	commentedType struct {
		Description string                    `json:"description,omitempty"`
		Unions      any                       `json:"unions,omitempty"`
		Fields      map[string]commentedField `json:"fields,omitempty"`
	}
	commented struct {
		Enums map[string]map[string]string `json:"enums"`
		Types map[string]commentedType     `json:"types"`
	}
)

// TestCommentsAreUpstreams compares what upstream's definitions say, and the Go types of this module do
// not, with the file that has it.
func TestCommentsAreUpstreams(t *testing.T) {
	types := goTypes()
	all := commented{Enums: map[string]map[string]string{}, Types: map[string]commentedType{}}
	enumerations := generatedDefinitions(t)
	theirs := map[string]definition{}
	for _, doc := range upstreamVersion3(t) {
		maps.Copy(theirs, schemasOf(doc))
	}
	for _, doc := range version3(t) {
		for name := range schemasOf(doc) {
			if def := theirs[name]; def != nil {
				if of := commentsOf(def, types[name], all.Enums, enumerations[name]); !reflect.DeepEqual(of, commentedType{}) {
					all.Types[name] = of
				}
			}
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatalf("marshal indent: %v", err)
	}
	want := string(text) + "\n"
	if *update {
		if err := os.WriteFile(commentsFile, []byte(want), 0o644); err != nil { //nolint:gosec // it is source
			t.Fatalf("write a file: %v", err)
		}
		return
	}
	got, err := os.ReadFile(commentsFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is old, run go test -update: %s", commentsFile, diff)
	}
}

// goType is a struct of a built-in kind: its fields by their names in JSON.
type goType struct {
	doc    string
	fields map[string]goField
}

type goField struct {
	typ     reflect.Type
	doc     string
	omitted bool // when it is empty
}

// sharedTypes are those that no kind has.
var sharedTypes = []reflect.Type{
	reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](), reflect.TypeFor[metav1.WatchEvent](),
	reflect.TypeFor[metav1.Patch](),
	reflect.TypeFor[metav1.APIVersions](), reflect.TypeFor[metav1.APIGroupList](), reflect.TypeFor[metav1.APIResourceList](),
	reflect.TypeFor[metav1.ListMeta](), reflect.TypeFor[version.Info](), reflect.TypeFor[autoscalingv1.Scale](),
}

// goTypes are the structs that the definitions of this module are made of, by the names of these.
func goTypes() map[string]goType {
	all := map[string]goType{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
			t = t.Elem()
		}
		if _, known := all[nameOf(t)]; known || t.Kind() != reflect.Struct {
			return
		}
		of := goType{doc: docs(t)[""], fields: map[string]goField{}}
		all[nameOf(t)] = of
		if _, special := reflect.Zero(t).Interface().(interface{ OpenAPISchemaType() []string }); special {
			return // its JSON is not that of its fields
		}
		addFields(of.fields, t)
		for _, f := range of.fields {
			add(f.typ)
		}
	}
	for _, r := range ours.Catalog().Resources() {
		add(r.GoType)
		for _, sub := range r.Subresources {
			if sub.GoType != nil {
				add(sub.GoType)
			}
		}
	}
	for _, t := range sharedTypes {
		add(t)
	}
	return all
}

func addFields(fields map[string]goField, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous || strings.Contains(options, "inline"):
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			addFields(fields, inner)
		case name != "":
			fields[name] = goField{typ: f.Type, doc: docs(t)[name], omitted: strings.Contains(options, "omit")}
		}
	}
}

func docs(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// nameOf is the name of the definition of a type.
func nameOf(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// commentsOf is what a definition says that its Go type does not; enumerations are
// added to enums.
func commentsOf(def definition, of goType, enums map[string]map[string]string, generated definition) commentedType {
	said := commentedType{Unions: def["x-kubernetes-unions"]}
	if text, _ := def["description"].(string); text != of.doc {
		said.Description = text
	}
	for name, prop := range propertiesOf(def) {
		field := of.fields[name]
		text, _ := prop["description"].(string)
		base, values, _ := strings.Cut(text, "\n\nPossible enum values:\n")
		comment := commentedField{Default: defaultOf(prop["default"], field)}
		if base != field.doc && !general(name, base) {
			comment.Description = base
		}
		if !reflect.DeepEqual(comment, commentedField{}) {
			if said.Fields == nil {
				said.Fields = map[string]commentedField{}
			}
			said.Fields[name] = comment
		}
		if list := enumOf(propertiesOf(generated)[name]); len(list) > 0 {
			addEnum(enums, field.typ, list, values)
		}
	}
	return said
}

// general reports whether a text is one that the members of all lists and objects have.
func general(field, text string) bool {
	return slices.Contains([]string{"kind", "apiVersion"}, field) && strings.Contains(text, "api-conventions.md")
}

// defaultOf is the default of a field if it does not follow from its type.
func defaultOf(value any, field goField) any {
	switch value {
	case "", float64(0), false:
		if !field.omitted && field.typ.Kind() != reflect.Pointer {
			return nil
		}
	}
	if o, ok := value.(definition); ok && len(o) == 0 {
		return nil
	}
	return value
}

// enumOf are the values of a field, or of what is in it.
func enumOf(prop definition) []any {
	for _, path := range [][]string{nil, {"items"}, {"additionalProperties"}} {
		if list, ok := below(prop, path)["enum"].([]any); ok {
			return list
		}
	}
	return nil
}

// enumLine begins the description of a value of an enumeration.
var enumLine = regexp.MustCompile("(?m)^ - `(\".*?\")` ?")

func addEnum(enums map[string]map[string]string, t reflect.Type, values []any, text string) {
	if t == nil {
		return
	}
	for t.Kind() != reflect.String {
		t = t.Elem()
	}
	of := enums[nameOf(t)]
	if of == nil {
		of = map[string]string{}
		enums[nameOf(t)] = of
	}
	for _, value := range values {
		if of[fmt.Sprint(value)] == "" {
			of[fmt.Sprint(value)] = ""
		}
	}
	at := enumLine.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0] - 1
		}
		var value string
		if json.Unmarshal([]byte(text[m[2]:m[3]]), &value) == nil {
			of[value] = text[m[1]:end]
		}
	}
}
