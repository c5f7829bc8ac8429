package mix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	namespaces = 4
	keeps      = 8 // variables for each of what is kept
)

// Generate returns the moves of a seed: those that prepare the namespaces, whose number is first, then as many as wanted,
// and those that read everything at the end.
func Generate(seed uint64, count int) (moves []Move, first, last int) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 28)), there: map[string][]string{}}
	g.prepare()
	first = len(g.moves)
	table := kinds()
	var weighted []*kind
	for i := range table {
		for range table[i].weight {
			weighted = append(weighted, &table[i])
		}
	}
	for len(g.moves) < first+count {
		g.move(weighted[g.IntN(len(weighted))])
	}
	last = len(g.moves)
	for i := range table {
		g.read(&table[i])
	}
	return g.moves, first, last
}

// add adds a move.
func (g *generator) add(of string, lines ...string) {
	g.moves = append(g.moves, Move{Of: of, Lines: lines})
}

// request is the lines of one: headers are "Name: value".
func request(method, path string, body any, headers ...string) []string {
	lines := []string{method + " " + path}
	for _, h := range headers {
		lines = append(lines, "  "+h)
	}
	switch body := body.(type) {
	case nil:
	case string:
		lines = append(lines, "  "+body)
	default:
		lines = append(lines, "  "+encode(body))
	}
	return lines
}

// seen is how long kube-apiserver's plugins have to see what was written, as they follow it.
const seen = "pause 60ms"

func namespace(i int) string { return fmt.Sprintf("$ns-%d", i) }

// prepare makes the namespaces, whose policies differ, and waits until pods can be created there.
func (g *generator) prepare() {
	for i := range namespaces {
		labels := object{"mix": "$ns"}
		if i > 0 {
			labels["pod-security.kubernetes.io/"+[]string{"", "warn", "enforce", "audit"}[i]] = g.text("baseline",
				"restricted")
		}
		lines := request("POST", "/api/v1/namespaces", object{"metadata": object{"name": namespace(i), "labels": labels}})
		lines = append(lines, request("POST", "/api/v1/namespaces/"+namespace(i)+"/serviceaccounts",
			object{"metadata": object{"name": "default"}})...)
		harmless := object{"metadata": object{"name": "seen"}, "spec": object{
			"securityContext": object{"runAsNonRoot": true, "seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": list{object{"name": "c", "image": "i", "securityContext": object{
				"allowPrivilegeEscalation": false, "capabilities": object{"drop": list{"ALL"}},
			}}},
		}}
		lines = append(lines, "await 201 POST /api/v1/namespaces/"+namespace(i)+"/pods?dryRun=All 60s",
			"  "+encode(harmless))
		g.add("prepare", lines...)
	}
	for i := range 2 {
		g.add("prepare", request("POST", "/api/v1/nodes", object{
			"metadata": object{"name": fmt.Sprintf("$ns-node%d", i), "labels": object{"mix": "$ns"}},
			"spec":     object{"unschedulable": i == 1},
		})...)
	}
	g.add("prepare", seen)
}

// place is a collection, and an object in it.
type place struct {
	*kind
	collection, name, namespace string
	exists                      bool // probably
}

func (p place) path() string { return p.collection + "/" + p.name }

// of names a move.
func (p place) of(method string, sub ...string) string {
	return strings.Join(append([]string{method + " " + p.plural}, sub...), "/")
}

// place chooses an object, in most cases one that exists.
func (g *generator) place(k *kind, existing bool) place {
	p := place{kind: k, collection: k.base + "/" + k.plural}
	if k.namespaced {
		i := g.IntN(namespaces)
		if i > 0 && g.chance(40) {
			i = 0
		}
		p.namespace = namespace(i)
		p.collection = k.base + "/namespaces/" + p.namespace + "/" + k.plural
	}
	there := g.there[p.collection]
	switch {
	case existing && len(there) > 0 && g.chance(92):
		p.name, p.exists = there[g.IntN(len(there))], true
	default:
		p.name = g.name(k)
		p.exists = slices.Contains(there, p.name)
	}
	return p
}

func (g *generator) name(k *kind) string {
	name := g.numbered(k.short, 4)
	if !k.namespaced {
		name = "$ns-" + name
	}
	return name
}

func (g *generator) created(p place) {
	if !slices.Contains(g.there[p.collection], p.name) {
		g.there[p.collection] = append(g.there[p.collection], p.name)
	}
}

func (g *generator) gone(p place) {
	g.there[p.collection] = slices.DeleteFunc(g.there[p.collection], func(name string) bool { return name == p.name })
}

// query are random parameters of a write.
func (g *generator) query(dry bool, more ...string) string {
	if dry {
		more = append(more, "dryRun=All")
	}
	if g.chance(6) {
		more = append(more, "fieldValidation="+g.text("Strict", "Warn", "Ignore"))
	}
	if g.chance(10) {
		more = append(more, "fieldManager="+g.text("a", "b"))
	}
	if len(more) == 0 {
		return ""
	}
	return "?" + strings.Join(more, "&")
}

// write adds a write, keeps something of the answer now and then, and waits for plugins that follow such objects.
func (g *generator) write(p place, of string, dry bool, lines []string) {
	if !dry {
		if g.chance(15) {
			lines = append(lines, fmt.Sprintf("keep rv%d .metadata.resourceVersion", g.kept%keeps),
				fmt.Sprintf("keep uid%d .metadata.uid", g.kept%keeps))
			g.kept++
		}
		if p.followed {
			lines = append(lines, seen)
		}
	}
	g.add(of, lines...)
}

// move adds one.
func (g *generator) move(k *kind) {
	n := g.IntN(100)
	for _, way := range []struct {
		percent int
		do      func(*kind)
	}{
		{34, g.create},
		{14, g.merge},
		{6, g.strategic},
		{6, g.jsonPatch},
		{9, g.apply},
		{8, g.put},
		{7, g.status},
		{7, g.delete},
		{1, g.deleteAll},
		{2, g.get},
		{6, g.sub},
	} {
		if n < way.percent {
			way.do(k)
			return
		}
		n -= way.percent
	}
}

// whole is an object as it is sent.
func (g *generator) whole(p place, typed bool) object {
	o := p.make(g, p)
	meta, is := o["metadata"].(object)
	if !is {
		meta = object{}
		o["metadata"] = meta
	}
	meta["name"] = p.name
	g.set(10, meta, "labels", object{"a": "b"}, object{"a": "c", "d": ""}, object{"bad key!": "x"}, object{"a": "-"})
	g.set(5, meta, "annotations", object{"x": "y"}, object{"example.com/long": strings.Repeat("x", 100)})
	g.set(3, meta, "finalizers", list{"example.com/stay"}, list{"nodomain"}, list{"kubernetes"})
	g.set(3, meta, "ownerReferences", func() any { return list{g.owner()} })
	g.set(2, meta, "namespace", p.namespace, "other")
	g.set(1, meta, "resourceVersion", "1", "x", "")
	g.set(1, meta, "uid", "00000000-0000-0000-0000-000000000001")
	g.set(2, meta, "creationTimestamp", nil, "2020-01-01T00:00:00Z")
	g.set(1, meta, "generation", 7)
	if !p.namespaced {
		labels, is := meta["labels"].(object)
		if !is {
			labels = object{}
		}
		all := object{"mix": "$ns"}
		for key, value := range labels {
			all[key] = value
		}
		meta["labels"] = all
	}
	if g.chance(3) {
		o["unknown"] = "x"
	}
	if typed || g.chance(50) {
		o["apiVersion"], o["kind"] = p.version(), p.kind.kind
	}
	return o
}

func (g *generator) owner() object {
	o := object{"apiVersion": "v1", "kind": "ConfigMap", "name": "cm0", "uid": fmt.Sprintf("$uid%d", g.IntN(keeps))}
	g.set(30, o, "controller", true)
	g.set(30, o, "blockOwnerDeletion", true)
	return o
}

func (g *generator) create(k *kind) {
	p, dry := g.place(k, false), g.chance(8)
	if p.exists && g.chance(70) { // another, that does not
		p = g.place(k, false)
	}
	o := g.whole(p, false)
	if g.chance(3) {
		meta, _ := o["metadata"].(object)
		delete(meta, "name")
		meta["generateName"] = g.text("gen-", "Bad-", "")
		g.write(p, p.of("POST"), dry, request("POST", p.collection+g.query(dry), o))
		return
	}
	if !dry {
		g.created(p)
	}
	lines := request("POST", p.collection+g.query(dry), o)
	if k.after != nil && !dry {
		lines = append(append(lines, seen), k.after(g, p, o)...)
	}
	g.write(p, p.of("POST"), dry, lines)
}

// change is a merge patch: of the kind's, or of the metadata.
func (g *generator) change(k *kind) object {
	if k.changes == nil || g.chance(20) {
		value := g.pick(
			object{"labels": object{"a": "b"}}, object{"labels": object{"a": nil}}, object{"labels": object{"a": "*"}},
			object{"annotations": object{"x": "z"}}, object{"annotations": nil}, object{"labels": nil},
			object{"finalizers": list{"example.com/stay"}}, object{"finalizers": nil}, object{"finalizers": list{}},
			object{"ownerReferences": list{g.owner()}}, object{"ownerReferences": nil}, object{"name": "other"},
			object{"resourceVersion": fmt.Sprintf("$rv%d", g.IntN(keeps))}, object{"resourceVersion": nil},
			object{"uid": fmt.Sprintf("$uid%d", g.IntN(keeps))}, object{"deletionTimestamp": "2020-01-01T00:00:00Z"},
			object{"generation": 9}, object{"managedFields": nil}, object{"managedFields": list{}},
			object{"managedFields": list{object{}}}, object{"creationTimestamp": "2020-01-01T00:00:00Z"},
		)
		return object{"metadata": value}
	}
	change := k.changes(g)
	if g.chance(5) {
		change["metadata"] = object{"resourceVersion": fmt.Sprintf("$rv%d", g.IntN(keeps))}
	}
	return change
}

func (g *generator) patch(k *kind, contentType string, body func() any) {
	p, dry := g.place(k, true), g.chance(8)
	g.write(p, p.of("PATCH"), dry, request("PATCH", p.path()+g.query(dry), body(), "Content-Type: "+contentType))
}

const (
	mergeType     = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	jsonType      = "application/json-patch+json"
	applyType     = "application/apply-patch+yaml"
)

func (g *generator) merge(k *kind) { g.patch(k, mergeType, func() any { return g.change(k) }) }

func (g *generator) strategic(k *kind) { g.patch(k, strategicType, func() any { return g.change(k) }) }

func (g *generator) jsonPatch(k *kind) {
	g.patch(k, jsonType, func() any {
		ops := operations(g, "", g.change(k))
		if g.chance(10) {
			ops = append(list{object{"op": "test", "path": "/metadata/labels/a", "value": "b"}}, ops...)
		}
		return ops
	})
}

// operations are those that make a merge patch's change, or nearly.
func operations(g *generator, path string, change object) list {
	all := list{}
	for _, key := range sorted(change) {
		at := path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
		switch value := change[key].(type) {
		case object:
			all = append(all, operations(g, at, value)...)
		case nil:
			all = append(all, object{"op": "remove", "path": at})
		default:
			all = append(all, object{"op": g.text("add", "add", "replace"), "path": at, "value": value})
		}
	}
	return all
}

func (g *generator) apply(k *kind) {
	p, dry := g.place(k, g.chance(70)), g.chance(8)
	o := g.whole(p, true)
	if g.chance(60) && k.changes != nil {
		o = object{"apiVersion": k.version(), "kind": k.kind, "metadata": object{"name": p.name}}
		for key, value := range k.changes(g) {
			o[key] = value
		}
	} else if !dry {
		g.created(p)
	}
	query := []string{"fieldManager=" + g.text("a", "b", "c")}
	if g.chance(4) {
		query = nil
	}
	if g.chance(40) {
		query = append(query, "force=true")
	}
	g.write(p, p.of("APPLY"), dry, request("PATCH", p.path()+g.query(dry, query...), o, "Content-Type: "+applyType))
}

// put sends what was read, changed, or what was read before, or an object that never was.
func (g *generator) put(k *kind) {
	p, dry := g.place(k, true), g.chance(8)
	if g.chance(15) {
		if !dry && k.upserts {
			g.created(p)
		}
		g.write(p, p.of("PUT"), dry, request("PUT", p.path()+g.query(dry), g.whole(p, false)))
		return
	}
	lines := request("GET", p.path(), nil)
	kept := fmt.Sprintf("obj%d", g.kept%keeps)
	lines = append(lines, "edit "+kept+" "+encode(g.change(k)))
	g.kept++
	if g.chance(8) {
		kept = fmt.Sprintf("obj%d", g.IntN(keeps))
	}
	g.write(p, p.of("PUT"), dry, append(lines, request("PUT", p.path()+g.query(dry), "$"+kept)...))
}

func (g *generator) status(k *kind) {
	if k.statuses == nil {
		g.merge(k)
		return
	}
	p, dry := g.place(k, true), g.chance(5)
	body := object{"status": k.statuses(g)}
	if g.chance(5) {
		body = g.change(k)
	}
	contentType := g.text(mergeType, mergeType, mergeType, strategicType)
	if g.chance(10) {
		body["apiVersion"], body["kind"], body["metadata"] = k.version(), k.kind, object{"name": p.name}
		g.write(p, p.of("APPLY", "status"), dry, request("PATCH", p.path()+"/status"+g.query(dry, "fieldManager=s"), body,
			"Content-Type: "+applyType))
		return
	}
	if g.chance(15) {
		lines := append(request("GET", p.path(), nil), fmt.Sprintf("edit obj%d %s", g.kept%keeps, encode(body)))
		lines = append(lines, request("PUT", p.path()+"/status"+g.query(dry), fmt.Sprintf("$obj%d", g.kept%keeps))...)
		g.kept++
		g.write(p, p.of("PUT", "status"), dry, lines)
		return
	}
	g.write(p, p.of("PATCH", "status"), dry,
		request("PATCH", p.path()+"/status"+g.query(dry), body, "Content-Type: "+contentType))
}

func (g *generator) options() (query string, body any) {
	o := object{}
	g.set(15, o, "gracePeriodSeconds", 0, 0, 1, 30, -1, 100000)
	g.set(10, o, "propagationPolicy", "Orphan", "Foreground", "Background", "Other")
	g.set(6, o, "preconditions", func() any {
		p := object{}
		g.set(60, p, "resourceVersion", fmt.Sprintf("$rv%d", g.IntN(keeps)))
		g.set(60, p, "uid", fmt.Sprintf("$uid%d", g.IntN(keeps)))
		return p
	})
	g.set(2, o, "orphanDependents", true, false)
	if g.chance(3) {
		o["dryRun"] = list{g.text("All", "Some")}
	}
	if len(o) > 0 {
		body = o
	}
	return g.query(g.chance(8)), body
}

func (g *generator) delete(k *kind) {
	p := g.place(k, true)
	query, body := g.options()
	dry := strings.Contains(query, "dryRun")
	if !dry {
		g.gone(p)
	}
	g.write(p, p.of("DELETE"), dry, request("DELETE", p.path()+query, body))
}

func (g *generator) deleteAll(k *kind) {
	p := g.place(k, true)
	query, body := g.options()
	more := "labelSelector=" + g.text("a%3Db", "a", "!a", "a+in+(b,c)")
	if !k.namespaced {
		more = "labelSelector=mix%3D$ns"
	}
	if query == "" {
		query = "?" + more
	} else {
		query += "&" + more
	}
	g.write(p, p.of("DELETE all"), false, request("DELETE", p.collection+query, body))
}

func (g *generator) get(k *kind) {
	p := g.place(k, true)
	if g.chance(50) {
		g.add(p.of("GET"), request("GET", p.path(), nil)...)
		return
	}
	var headers []string
	if g.chance(30) {
		headers = append(headers, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
	}
	selector := g.text("", "&labelSelector=a%3Db", "&labelSelector=a", "&labelSelector=!a",
		"&fieldSelector=metadata.name%3D"+p.name)
	if !k.namespaced && !strings.Contains(selector, "fieldSelector") {
		selector = "&labelSelector=mix%3D$ns"
	}
	g.add(p.of("LIST"), request("GET", p.collection+"?"+strings.TrimPrefix(selector, "&"), nil, headers...)...)
}

// read reads all collections of a kind.
func (g *generator) read(k *kind) {
	if !k.namespaced {
		g.add("LIST "+k.plural, request("GET", k.base+"/"+k.plural+"?labelSelector=mix%3D$ns", nil)...)
		return
	}
	for i := range namespaces {
		g.add("LIST "+k.plural, request("GET", k.base+"/namespaces/"+namespace(i)+"/"+k.plural, nil)...)
	}
}

func (g *generator) sub(k *kind) {
	if len(k.subs) == 0 {
		g.create(k)
		return
	}
	k.subs[g.IntN(len(k.subs))](g, g.place(k, true))
}
