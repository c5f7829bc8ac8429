package builtin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	crdtable "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	aggregatorinstall "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	apiservices "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/events/install" // registers its kinds
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// upstreamTables shows objects as kube-apiserver shows them.
type upstreamTables struct {
	scheme  *runtime.Scheme // of CustomResourceDefinition and APIService, which legacyscheme lacks
	columns rest.TableConvertor
}

func newUpstreamTables() *upstreamTables {
	t := &upstreamTables{
		scheme:  runtime.NewScheme(),
		columns: printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(internalversion.AddHandlers)},
	}
	install.Install(t.scheme)
	aggregatorinstall.Install(t.scheme)
	return t
}

// of returns where kube-apiserver takes the kind of r and its table from.
func (t *upstreamTables) of(r *kinds.Resource) (*runtime.Scheme, rest.TableConvertor) {
	switch gr := r.GR(); gr.String() {
	case "customresourcedefinitions.apiextensions.k8s.io":
		return t.scheme, crdtable.New()
	case "apiservices.apiregistration.k8s.io":
		return t.scheme, &apiservices.REST{}
	case "limitranges", "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io":
		return legacyscheme.Scheme, rest.NewDefaultTableConvertor(gr)
	default:
		return legacyscheme.Scheme, t.columns
	}
}

// stored returns an object as kube-apiserver keeps it: the JSON of its version, with
// defaults.
func (t *upstreamTables) stored(r *kinds.Resource, body []byte) ([]byte, error) {
	scheme, _ := t.of(r)
	object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode a %s: %w", r.Kind, err)
	}
	scheme.Default(object)
	stored, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode a %s: %w", r.Kind, err)
	}
	return stored, nil
}

// read returns the object that kube-apiserver reads from its stored form.
func (t *upstreamTables) read(r *kinds.Resource, stored []byte) (runtime.Object, error) {
	scheme, _ := t.of(r)
	object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(stored, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode a %s: %w", r.Kind, err)
	}
	internal, err := scheme.ConvertToVersion(object, internalVersion(r))
	if err != nil {
		return nil, fmt.Errorf("convert a %s: %w", r.Kind, err)
	}
	return internal, nil
}

// bookmark returns the object of a bookmark.
func (t *upstreamTables) bookmark(r *kinds.Resource) (runtime.Object, error) {
	scheme, _ := t.of(r)
	object, err := scheme.New(internalVersion(r).WithKind(r.Kind))
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", r.Kind, err)
	}
	return object, nil
}

func internalVersion(r *kinds.Resource) runtimeschema.GroupVersion {
	return runtimeschema.GroupVersion{Group: r.Group, Version: runtime.APIVersionInternal}
}

// one returns the table of one object. It is nil if kube-apiserver has none: it answers
// with an error, or panics, for some objects that its validation refuses.
func (t *upstreamTables) one(r *kinds.Resource, object runtime.Object) (table *metav1.Table, err error) {
	_, convertor := t.of(r)
	defer func() {
		if recover() != nil {
			table, err = nil, nil
		}
	}()
	table, err = convertor.ConvertToTable(request.NewContext(), object, &metav1.TableOptions{})
	if err != nil {
		return nil, nil
	}
	return inJSON(table)
}

// list returns the table of a list.
func (t *upstreamTables) list(r *kinds.Resource, objects []runtime.Object) (*metav1.Table, error) {
	scheme, _ := t.of(r)
	kinds, _, err := scheme.ObjectKinds(objects[0])
	if err != nil {
		return nil, fmt.Errorf("find the kind of a %s: %w", r.Kind, err)
	}
	list, err := scheme.New(kinds[0].GroupVersion().WithKind(r.ListKind))
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", r.ListKind, err)
	}
	if err := meta.SetList(list, objects); err != nil {
		return nil, fmt.Errorf("fill a %s: %w", r.ListKind, err)
	}
	return t.one(r, list)
}

// gaplessOne shows an object as the server of this module shows it, by the columns and
// the rows of its resource.
func gaplessOne(r *kinds.Resource, object *wire.Object) (*metav1.Table, error) {
	return gaplessTable(r, r.Row, object)
}

// gaplessList shows a list as the server of this module shows it.
func gaplessList(r *kinds.Resource, objects []*wire.Object) (*metav1.Table, error) {
	row := r.Row
	if r.ListRow != nil {
		row = r.ListRow(func(yield func(*wire.Object, error) bool) {
			for _, o := range objects {
				if !yield(o, nil) {
					return
				}
			}
		})
	}
	return gaplessTable(r, row, objects...)
}

func gaplessTable(r *kinds.Resource, row func(*wire.Object) []any, objects ...*wire.Object) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: r.Columns}
	now := time.Now()
	for _, o := range objects {
		shown := metav1.TableRow{Cells: kinds.Shown(row(o), now)}
		if r.RowConditions != nil {
			shown.Conditions = r.RowConditions(o)
		}
		table.Rows = append(table.Rows, shown)
	}
	return inJSON(table)
}

// inJSON returns a table as a client decodes it, so that cells have the types of JSON.
func inJSON(table *metav1.Table) (*metav1.Table, error) {
	body, err := json.Marshal(table)
	if err != nil {
		return nil, fmt.Errorf("encode a table: %w", err)
	}
	decoded := &metav1.Table{}
	if err := json.Unmarshal(body, decoded); err != nil {
		return nil, fmt.Errorf("decode a table: %w", err)
	}
	return decoded, nil
}

// differing is where two tables differ ("column Age" for a definition, "cell Age" for a
// cell in any row), each with the first example.
type differing map[string]string

func (d differing) note(what string, upstream, gapless any) {
	theirs, ours := asJSON(upstream), asJSON(gapless)
	if theirs != ours && d[what] == "" {
		d[what] = fmt.Sprintf("upstream %s, gapless %s", theirs, ours)
	}
}

// compareColumns returns where the column definitions of two tables differ.
func compareColumns(upstream, gapless *metav1.Table) differing {
	found := differing{}
	theirs, ours := upstream.ColumnDefinitions, gapless.ColumnDefinitions
	found.note("number of columns", len(theirs), len(ours))
	for i := range min(len(theirs), len(ours)) {
		found.note("column "+theirs[i].Name, theirs[i], ours[i])
	}
	return found
}

// compareRows returns where the rows of two tables differ.
func compareRows(upstream, gapless *metav1.Table) differing {
	found := differing{}
	found.note("number of rows", len(upstream.Rows), len(gapless.Rows))
	for i := range min(len(upstream.Rows), len(gapless.Rows)) {
		theirs, ours := upstream.Rows[i], gapless.Rows[i]
		found.note("conditions", theirs.Conditions, ours.Conditions)
		found.note("number of cells", len(theirs.Cells), len(ours.Cells))
		for c := range min(len(theirs.Cells), len(ours.Cells), len(upstream.ColumnDefinitions)) {
			found.note("cell "+upstream.ColumnDefinitions[c].Name, theirs.Cells[c], ours.Cells[c])
		}
	}
	return found
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v)
	}
	return string(text)
}

// moment is "$(ago 5m)" or "$(in 5m)" in a manifest.
var moment = regexp.MustCompile(`\$\((ago|in) ([0-9a-z]+)\)`)

// atMoment replaces the moments of a manifest. Both sides take the age at slightly
// different times: a manifest gives ages that no second changes, as 90m30s, shown as 90m.
func atMoment(manifest string, now time.Time) (string, error) {
	var wrong error
	out := moment.ReplaceAllStringFunc(manifest, func(text string) string {
		parts := moment.FindStringSubmatch(text)
		span, err := time.ParseDuration(parts[2])
		if err != nil {
			wrong = fmt.Errorf("read %s: %w", text, err)
		}
		if parts[1] == "ago" {
			span = -span
		}
		return now.Add(span).Truncate(time.Second).UTC().Format(metav1.RFC3339Micro)
	})
	return out, wrong
}

// listed are the resources of the catalog that have tables, by name.
func listed(catalog *kinds.Catalog) map[string]*kinds.Resource {
	all := map[string]*kinds.Resource{}
	for _, r := range catalog.Resources() {
		if slices.Contains(r.Verbs, "list") {
			all[strings.Trim(r.Group+"/"+r.Version+"/"+r.Plural, "/")] = r
		}
	}
	return all
}
