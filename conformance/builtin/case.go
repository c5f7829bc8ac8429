package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
)

// Case is a body that is written to both servers.
type Case struct {
	What string // how it was made of a manifest
	Body []byte
}

// Depth says how many changes Mutate makes.
type Depth int

// The depths. Removals removes members and empties lists and maps. Brief replaces leaves
// too, and repeats and removes items of lists. Full replaces them by values that are
// invalid anywhere, too.
const (
	Removals Depth = iota
	Brief
	Full
)

// Mutate returns the object with one change each. Paths for which skip is true stay as
// they are.
func Mutate(object map[string]any, depth Depth, skip func(path string) bool) []Case {
	m := &mutator{object: object, depth: depth, skip: skip}
	m.walkMap("", object)
	return m.all
}

type mutator struct {
	object map[string]any
	depth  Depth
	skip   func(path string) bool
	all    []Case
}

// emit adds the object as it is now.
func (m *mutator) emit(format string, args ...any) {
	if body, err := json.Marshal(m.object); err == nil { // it was read from JSON
		m.all = append(m.all, Case{What: fmt.Sprintf(format, args...), Body: body})
	}
}

func (m *mutator) walkMap(path string, at map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(at)) {
		was, path := at[name], strings.TrimPrefix(path+"."+name, ".")
		if m.skip(path) {
			continue
		}
		if path == "metadata" { // an update of no name is none
			m.walk(path, was, func(any) {})
			continue
		}
		delete(at, name)
		m.emit("without %s", path)
		if several, has := at[name+"s"]; has {
			// Two forms of one value: a client that knows of neither leaves out both.
			delete(at, name+"s")
			m.emit("without %s and %ss", path, path)
			at[name+"s"] = several
		}
		m.replace(path, was, func(value any) { at[name] = value })
		m.walk(path, was, func(value any) { at[name] = value })
	}
}

// walk changes what is below was, whose place set fills.
func (m *mutator) walk(path string, was any, set func(any)) {
	switch was := was.(type) {
	case map[string]any:
		if len(was) > 0 && path != "metadata" {
			set(map[string]any{})
			m.emit("%s = {}", path)
			set(was)
		}
		m.walkMap(path, was)
	case []any:
		if len(was) > 0 {
			set([]any{})
			m.emit("%s = []", path)
		}
		if len(was) > 0 && m.depth > Removals {
			set(append(slices.Clone(was), was[0]))
			m.emit("%s[0] repeated", path)
		}
		if len(was) > 1 && m.depth > Removals {
			set(was[1:])
			m.emit("without %s[0]", path)
		}
		if len(was) > 1 && m.depth > Removals {
			reversed := slices.Clone(was)
			slices.Reverse(reversed)
			set(reversed)
			m.emit("%s reversed", path)
			m.withoutMembers(path, was, set)
		}
		set(was)
		for i := range was {
			item, path := was[i], fmt.Sprintf("%s[%d]", path, i)
			m.replace(path, item, func(value any) { was[i] = value })
			m.walk(path, item, func(value any) { was[i] = value })
		}
	}
}

// withoutMembers leaves each member out of all items of a list, as they are and in the opposite
// order: values that a server keeps for them must find the right item.
func (m *mutator) withoutMembers(path string, was []any, set func(any)) {
	names := map[string]bool{}
	for _, item := range was {
		item, _ := item.(map[string]any)
		for name := range item {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left := make([]any, len(was))
		for i, item := range was {
			left[i] = item
			if item, is := item.(map[string]any); is {
				item = maps.Clone(item)
				delete(item, name)
				left[i] = item
			}
		}
		set(left)
		m.emit("without %s[*].%s", path, name)
		slices.Reverse(left)
		m.emit("%s reversed, without %s", path, name)
	}
}

// replace replaces a leaf by other values, and puts it back.
func (m *mutator) replace(path string, was any, set func(any)) {
	for _, other := range others(was, m.depth) {
		set(other)
		m.emit("%s = %.20v", path, other)
	}
	set(was)
}

// number matches quantities and counts.
var number = regexp.MustCompile(`^[0-9.]+[A-Za-z]{0,2}$`)

// enumerations are values of which one is as valid as another, or nearly so.
func enumerations() [][]string {
	return [][]string{
		{"Always", "OnFailure", "Never", "IfNotPresent"},
		{"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
		{"TCP", "UDP", "SCTP"},
		{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
		{"RollingUpdate", "Recreate", "OnDelete"},
		{"Parallel", "OrderedReady"},
		{"NonIndexed", "Indexed"},
		{"Allow", "Forbid", "Replace"},
		{"TerminatingOrFailed", "Failed"},
		{"FailJob", "Ignore", "Count", "FailIndex"},
		{"File", "FallbackToLogsOnError"},
		{"Equal", "Exists", "Lt", "Gt", "In", "NotIn", "DoesNotExist"},
		{"NoSchedule", "PreferNoSchedule", "NoExecute"},
		{"DoNotSchedule", "ScheduleAnyway"},
		{"Honor", "Ignore"},
		{"Retain", "Delete", "Recycle"},
		{"Immediate", "WaitForFirstConsumer"},
		{"Filesystem", "Block"},
		{"Cluster", "Local"},
		{"SingleStack", "PreferDualStack", "RequireDualStack"},
		{"Utilization", "AverageValue", "Value"},
		{"Resource", "Pods", "Object", "External", "ContainerResource"},
		{"ClientIP", "None"},
		{"HTTP", "HTTPS"},
		{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
		{"Role", "ClusterRole"},
		{"User", "Group", "ServiceAccount"},
		{"Exact", "Prefix", "ImplementationSpecific"},
		{"IPv4", "IPv6", "FQDN"},
		{"Ingress", "Egress"},
		{"Container", "Pod", "PersistentVolumeClaim"},
		{"True", "False", "Unknown"},
		{"RuntimeDefault", "Localhost", "Unconfined"},
		{"Directory", "DirectoryOrCreate", "File", "Socket"},
		{"Persistent", "Ephemeral"},
		{"None", "File", "ReadWriteOnceWithFSType"},
		{"PreferLowerPriority", "Never"},
		{"IfHealthyBudget", "AlwaysAllow"},
		{"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"},
		{"Normal", "Warning"},
		{"Pending", "Bound", "Lost", "Available", "Released", "Running", "Succeeded", "Failed"},
	}
}

// others are the values that replace a leaf.
func others(leaf any, depth Depth) []any {
	if depth == Removals {
		return nil
	}
	switch leaf := leaf.(type) {
	case string:
		return otherTexts(leaf, depth)
	case float64:
		if depth == Brief {
			return []any{leaf + 1, -1.0}
		}
		return []any{leaf + 1, -1.0, 0.0, 65536.0, 1e9}
	case bool:
		return []any{!leaf}
	}
	return nil
}

func otherTexts(leaf string, depth Depth) []any {
	all := []any{leaf + "x", ""}
	if depth == Full {
		all = append(all, "Not Valid!", strings.Repeat("x", 300))
	}
	if number.MatchString(leaf) {
		all = append(all, "7", "-1", "0", "250m", "101%")
	}
	if ip := net.ParseIP(leaf); ip != nil {
		all = append(all, "10.9.9.9", "fd00::9", "127.0.0.1", "010.0.0.1", "::ffff:1.2.3.4", "2001:DB8::1", "fe80:0::9")
	}
	if _, _, err := net.ParseCIDR(leaf); err == nil {
		all = append(all, "10.0.0.0/8", "fd00::/64", "10.0.0.1/8", "010.0.0.0/8", "10.0.0.0/08", "::ffff:10.0.0.0/104",
			"2001:DB8::/32")
	}
	for _, values := range enumerations() {
		if !slices.Contains(values, leaf) {
			continue
		}
		for _, other := range values {
			if other != leaf {
				all = append(all, other)
			}
		}
	}
	return all
}

// Graft returns the object with one change each: a member that it does not have is taken
// from another object of the same kind.
func Graft(object, from map[string]any, skip func(path string) bool) []Case {
	m := &mutator{object: object, skip: skip}
	m.graft("", object, from)
	return m.all
}

func (m *mutator) graft(path string, to, from map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		path := strings.TrimPrefix(path+"."+name, ".")
		if m.skip(path) {
			continue
		}
		given := from[name]
		has, is := to[name]
		if !is {
			to[name] = given
			m.emit("with upstream's fixture's %s", path)
			delete(to, name)
			continue
		}
		if list, is := has.([]any); is && len(list) > 0 {
			items, _ := given.([]any)
			if len(items) == 0 {
				continue
			}
			has, given, path = list[0], items[0], path+"[0]"
		}
		inner, isMap := has.(map[string]any)
		if members, is := given.(map[string]any); is && isMap {
			m.graft(path, inner, members)
		}
	}
}
