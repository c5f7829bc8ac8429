package load

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// The custom resource that is measured.
const (
	Group    = "bench.gapless.io"
	Plural   = "benches"
	Kind     = "Bench"
	Base     = "/apis/" + Group + "/v1/"
	Everyone = Base + Plural // the collection over all namespaces
)

// Definition is its CustomResourceDefinition. Its structural schema has values of every
// type, bounds, an enumeration, a pattern, a map, a list that is a map and a default; the
// content of Payload has the first three only.
const Definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"` + Plural + `.` + Group + `"},
"spec":{"group":"` + Group + `","scope":"Namespaced",
"names":{"plural":"` + Plural + `","singular":"bench","kind":"` + Kind + `","listKind":"` + Kind + `List"},
"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.shard"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"payload":{"type":"string"},"shard":{"type":"string"},"stamp":{"type":"string"},
"replicas":{"type":"integer","format":"int32","minimum":0,"maximum":1000},
"paused":{"type":"boolean"},
"weight":{"type":"number","minimum":0,"maximum":1},
"strategy":{"type":"string","enum":["Recreate","RollingUpdate"]},
"schedule":{"type":"string","maxLength":64,"pattern":"^[0-9*/, -]+$"},
"notBefore":{"type":"string","format":"date-time"},
"maxUnavailable":{"x-kubernetes-int-or-string":true},
"selector":{"type":"object","additionalProperties":{"type":"string","maxLength":63}},
"containers":{"type":"array","maxItems":16,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
"items":{"type":"object","required":["name","image"],"properties":{
"name":{"type":"string","minLength":1,"maxLength":63},"image":{"type":"string","minLength":1},
"args":{"type":"array","maxItems":16,"items":{"type":"string"}},
"ports":{"type":"array","maxItems":16,"items":{"type":"object","required":["port"],"properties":{
"port":{"type":"integer","minimum":1,"maximum":65535},"protocol":{"type":"string","default":"TCP"}}}}}}}
}}}}}}]}}`

// DefinitionOf is the same definition in another group.
func DefinitionOf(group string) string { return strings.ReplaceAll(Definition, Group, group) }

// Content is what an object holds, and thereby of which kind it is.
type Content int

// The contents.
const (
	Payload        Content = iota // a custom resource that is nearly all one string, of 1 KiB
	Structured                    // a custom resource with a value of every type of its schema, of 1 KB in all
	ConfigMap                     // a ConfigMap of 1 KB in all, with four entries
	Pod                           // a Pod of 1 KB in all, as a client sends it, with two containers
	Large                         // a custom resource of 20 KB in all, of which only the stamp changes
	UserPart                      // about half of Structured: what a user applies
	ControllerPart                // the rest of Structured: what a controller applies
	TwoKilobytes                  // a custom resource like Payload, that has 2 KB as servers return it
	Small                         // a ConfigMap with 300 bytes of data
)

// Object is what is written.
type Object struct {
	Namespace, Name string
	Shard           string // of the label and of the selectable field; may be empty
	Version         string // resourceVersion; empty for a create
	Content         Content
	Manager         string // field manager of the writes; empty leaves it to the server
	Owner           string // metadata.ownerReferences, as JSON; empty is none
	Group           string // of the custom resource, which DefinitionOf defines; empty is Group
	// Annotated repeats the stamp in an annotation, where watches find it that get
	// metadata only.
	Annotated bool
}

// Namespaced is the collection of the custom resource in one namespace.
func Namespaced(namespace string) string { return Base + "namespaces/" + namespace + "/" + Plural }

// Collection is the path of the object's collection.
func (o Object) Collection() string {
	switch o.Content {
	case Payload, Structured, Large, UserPart, ControllerPart, TwoKilobytes:
	case ConfigMap, Small:
		return "/api/v1/namespaces/" + o.Namespace + "/configmaps"
	case Pod:
		return "/api/v1/namespaces/" + o.Namespace + "/pods"
	}
	return strings.Replace(Namespaced(o.Namespace), Group, cmp.Or(o.Group, Group), 1)
}

// append renders the object with its content and the stamp of now.
func (o Object) append(b []byte, s Stamp) []byte {
	s.Sent = time.Now().UnixNano()
	version, kind := cmp.Or(o.Group, Group)+"/v1", Kind
	switch o.Content {
	case Payload, Structured, Large, UserPart, ControllerPart, TwoKilobytes:
	case ConfigMap, Small:
		version, kind = "v1", "ConfigMap"
	case Pod:
		version, kind = "v1", "Pod"
	}
	b = fmt.Appendf(b, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q`, version, kind, o.Name, o.Namespace)
	if o.Version != "" {
		b = fmt.Appendf(b, `,"resourceVersion":%q`, o.Version)
	}
	if o.Annotated {
		b = fmt.Appendf(b, `,"annotations":{"stamp":"%s"}`, s)
	}
	if o.Owner != "" {
		b = fmt.Appendf(b, `,"ownerReferences":%s`, o.Owner)
	}
	b = fmt.Appendf(b, `,"labels":{"app":"bench","shard":%q}},`, o.Shard)
	return o.render(b, s)
}

// render renders what follows the metadata, from the content of a write, its number and
// its stamp.
func (o Object) render(b []byte, s Stamp) []byte {
	text := payload(s.Key, s.Seq)
	switch o.Content {
	case Payload:
		return fmt.Appendf(b, `"spec":{"payload":"%s","shard":%q,"stamp":"%s"}}`, text, o.Shard, s)
	case Structured:
		return fmt.Appendf(b, structured, text[:250], s.Seq%1000, o.Shard, s)
	case ConfigMap:
		return fmt.Appendf(b, configMap, s.Seq%1000, text[:mapPayload], s)
	case Pod:
		return fmt.Appendf(b, pod, text[:150], s.Seq%1000, s)
	case Large:
		return o.large(b, s)
	case UserPart:
		return fmt.Appendf(b, userPart, text[:250])
	case ControllerPart:
		return fmt.Appendf(b, controllerPart, s.Seq%1000, o.Shard, s)
	case TwoKilobytes:
		return fmt.Appendf(b, `"spec":{"payload":"%s%s","shard":%q,"stamp":"%s"}}`, text, text[:300], o.Shard, s)
	case Small:
		return fmt.Appendf(b, `"data":{"text":"%s","stamp":"%s"}}`, text[:250], s)
	}
	return b
}

// large renders what follows the metadata of an object of 20 KB: 16 containers with 16
// arguments and 16 ports each. They are the same in every write of a key.
func (o Object) large(b []byte, s Stamp) []byte {
	const many, bytes = 16, 24
	text := payload(s.Key, 0)
	b = fmt.Appendf(b, `"spec":{"payload":"%s","replicas":3,"paused":false,"weight":0.25,"strategy":"RollingUpdate","selector":{`,
		text[:250])
	for i := range many {
		b = fmt.Appendf(b, `"bench.example/part-%02d":"%s",`, i, text[i:i+bytes])
	}
	b = append(b[:len(b)-1], `},"containers":[`...)
	for i := range many {
		b = fmt.Appendf(b, `{"name":"server-%02d","image":"registry.example/team/server:v1.24.%d","args":[`, i, i)
		for j := range many {
			at := (i*many + j) * 3
			b = fmt.Appendf(b, `"--option-%02d=%s",`, j, text[at:at+bytes])
		}
		b = append(b[:len(b)-1], `],"ports":[`...)
		for j := range many {
			b = fmt.Appendf(b, `{"port":%d,"protocol":"TCP"},`, 8000+j)
		}
		b = append(b[:len(b)-1], `]},`...)
	}
	return fmt.Appendf(b[:len(b)-1], `],"shard":%q,"stamp":"%s"}}`, o.Shard, s)
}

// What follows the metadata of an object that is not nearly all payload.
const (
	structured = `"spec":{"payload":"%s","replicas":%d,"paused":false,"weight":0.25,"strategy":"RollingUpdate",` +
		`"schedule":"*/5 0-6 * * 1,3","notBefore":"2026-01-31T08:30:00Z","maxUnavailable":"25%%","selector":{"app":"bench",` +
		`"tier":"backend","zone":"a"},"containers":[` +
		`{"name":"server","image":"registry.example/team/server:v1.24.3","args":["--listen=:8080","--verbosity=2"],` +
		`"ports":[{"port":8080},{"port":9090,"protocol":"UDP"}]},` +
		`{"name":"proxy","image":"registry.example/team/proxy:v0.9.1","args":["--upstream=127.0.0.1:8080"],` +
		`"ports":[{"port":8443}]}],` +
		`"shard":%q,"stamp":"%s"}}`
	userPart = `"spec":{"payload":"%s","strategy":"RollingUpdate","schedule":"*/5 0-6 * * 1,3","selector":{"app":"bench",` +
		`"tier":"backend","zone":"a"},"containers":[` +
		`{"name":"server","image":"registry.example/team/server:v1.24.3","args":["--listen=:8080","--verbosity=2"],"ports":[{"port":8080},{"port":9090,"protocol":"UDP"}]}]}}`
	controllerPart = `"spec":{"replicas":%d,"paused":false,"weight":0.25,"notBefore":"2026-01-31T08:30:00Z",` +
		`"maxUnavailable":"25%%","containers":[` +
		`{"name":"proxy","image":"registry.example/team/proxy:v0.9.1","args":["--upstream=127.0.0.1:8080"],` +
		`"ports":[{"port":8443}]}],` +
		`"shard":%q,"stamp":"%s"}}`
	configMap = `"data":{"LOG_LEVEL":"info","REPLICAS":"%d","config.yaml":"listen: 0.0.0.0:8080\nretries: 3\ntoken: ` +
		`%s\n","stamp":"%s"}}`
	pod = `"spec":{"serviceAccountName":"default","nodeSelector":{"zone":"a"},"containers":[` +
		`{"name":"server","image":"registry.example/team/server:v1.24.3","args":["--listen=:8080"],"ports":[{"name":"http",` +
		`"containerPort":8080}],` +
		`"env":[{"name":"TOKEN","value":"%s"},{"name":"REPLICAS","value":"%d"}],` +
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},` +
		`"readinessProbe":{"httpGet":{"path":"/ready","port":"http"},"periodSeconds":5},` +
		`"volumeMounts":[{"name":"config","mountPath":"/etc/server"}]},` +
		`{"name":"proxy","image":"registry.example/team/proxy:v0.9.1","env":[{"name":"STAMP","value":"%s"}]}],` +
		`"volumes":[{"name":"config","configMap":{"name":"server"}}]}}`
)

// mapPayload is how much of a payload a ConfigMap has.
const mapPayload = 660

// appendPatch renders a merge patch that replaces the payload and the stamp.
func appendPatch(b []byte, s Stamp) []byte {
	s.Sent = time.Now().UnixNano()
	return fmt.Appendf(b, `{"spec":{"payload":"%s","stamp":"%s"}}`, payload(s.Key, s.Seq), s)
}
