package fault

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// Request is what a request asks for, by the names that authorization uses. For a path that
// is about no resource it has only the verb, which is the method in lower case.
type Request struct {
	Verb        string
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
}

// RequestOf reads the path, the method and the query as an API server does. It allocates
// nothing, because every request passes it while there are rules.
func RequestOf(r *http.Request) Request {
	other := Request{Verb: lowerMethod(r.Method)}
	q := Request{}
	first, rest := cutSegment(strings.Trim(r.URL.Path, "/"))
	switch first {
	case "api":
		q.Version, rest = cutSegment(rest)
	case "apis":
		q.Group, rest = cutSegment(rest)
		q.Version, rest = cutSegment(rest)
	default:
		return other
	}
	if rest == "" {
		return other
	}
	first, after := cutSegment(rest)
	if (first == "watch" || first == "proxy") && after != "" {
		q.Verb, rest = first, after
	} else {
		q.Verb = verbOf(r.Method)
	}
	if first, after = cutSegment(rest); first == "namespaces" && after != "" {
		var below string
		q.Namespace, below = cutSegment(after)
		if third, _ := cutSegment(below); below != "" && third != "status" && third != "finalize" {
			rest = below
		}
	}
	q.Resource, rest = cutSegment(rest)
	q.Name, rest = cutSegment(rest)
	if q.Verb != "proxy" {
		q.Subresource, _ = cutSegment(rest)
	}
	switch {
	case q.Name != "":
	case q.Verb == "get" && asksForWatch(r):
		q.Verb = "watch"
	case q.Verb == "get":
		q.Verb = "list"
	case q.Verb == "delete":
		q.Verb = "deletecollection"
	}
	return q
}

// cutSegment splits off the first segment of a path.
func cutSegment(path string) (first, rest string) {
	first, rest, _ = strings.Cut(path, "/")
	return first, rest
}

// lowerMethod returns a method in lower case, without allocating for the usual ones.
func lowerMethod(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodPost:
		return "post"
	}
	return strings.ToLower(method)
}

// verbOf returns the verb of a method on a resource.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// asksForWatch reports whether the first parameter watch is neither 0 nor false.
func asksForWatch(r *http.Request) bool {
	query := r.URL.RawQuery
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "%+;") || key == "watch" && strings.ContainsAny(value, "%+;") {
			return isTrue(r.URL.Query()["watch"]) // nobody escapes these names
		}
		if key == "watch" {
			return value != "0" && !strings.EqualFold(value, "false")
		}
	}
	return false
}

// isTrue reports whether the first of the values of a parameter is neither 0 nor false.
func isTrue(values []string) bool {
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// selectedName returns the name of the object in the path, or the one that a field selector selects.
func selectedName(name string, r *http.Request) string {
	if name != "" || !strings.Contains(r.URL.RawQuery, "metadata.name") {
		return name
	}
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return "" // the server refuses it
	}
	name, _ = selector.RequiresExactMatch("metadata.name")
	return name
}

// hasSubresource reports whether requests of a verb can be about a subresource.
func hasSubresource(verb string) bool {
	return !slices.Contains([]string{"list", "watch", "deletecollection"}, verb)
}

// ofResource reports whether requests of a verb can be about a resource.
func ofResource(verb string) bool {
	return !slices.Contains([]string{"post", "put", "head", "options"}, verb)
}

// namesObject reports whether requests of a verb can name an object.
func namesObject(verb string) bool { return verb != "create" && verb != "post" }
