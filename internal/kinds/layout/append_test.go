package layout_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/gotype"
	"github.com/gapless-io/gapless/internal/wire"
)

var (
	appendSeed = flag.Uint64("append-seed", 0, "seed of the messages that are changed; 0: another one each time")
	appendRuns = flag.Int("append-runs", 300, "how many times the message of each kind is changed")
)

// messageKinds are the built-in kinds that have messages.
func messageKinds() []*kinds.Resource {
	return slices.DeleteFunc(builtin.Catalog().Resources(), func(r *kinds.Resource) bool { return r.FromProtobuf == nil })
}

// message is the protobuf message of an envelope.
func message(tb testing.TB, value []byte) []byte {
	tb.Helper()
	for rest := value[len("k8s\x00"):]; len(rest) > 0; {
		number, _, n := protowire.ConsumeTag(rest)
		content, n2 := protowire.ConsumeBytes(rest[n:])
		if n < 0 || n2 < 0 {
			tb.Fatalf("no envelope: %q", value)
		}
		if number == 2 {
			return content
		}
		rest = rest[n+n2:]
	}
	tb.Fatalf("an envelope without a message: %q", value)
	return nil
}

// checkAppended compares what is written of a message without a tree, if it can be, with what is written of its tree.
func checkAppended(tb testing.TB, r *kinds.Resource, msg []byte) (appended bool) {
	tb.Helper()
	s, err := gotype.Of(r.GoType)
	if err != nil {
		tb.Fatalf("look at the struct of the %s: %v", r.Kind, err)
	}
	given := bytes.Clone(msg)
	got, ok := s.AppendMessage([]byte("before"), r.APIVersion(), r.Kind, msg)
	if !bytes.Equal(msg, given) {
		tb.Fatalf("the message of a %s was changed", r.Kind)
	}
	if !ok {
		return false
	}
	content, err := r.FromProtobuf(msg)
	if err != nil {
		tb.Fatalf("the %s %q was written as %s, but cannot be read: %v", r.Kind, msg, got, err)
	}
	delete(content["metadata"].(map[string]any), "selfLink")
	want, err := wire.Canonical(content)
	if err != nil {
		tb.Fatalf("encode the %s: %v", r.Kind, err)
	}
	if string(got) != "before"+string(want) {
		tb.Fatalf("the %s %q is\n%s, but was written as\n%s", r.Kind, msg, want, got)
	}
	return true
}

// unusual are the kinds whose fixtures have something that cannot be written without a tree.
var unusual = map[string]string{
	"ControllerRevision": "data of any type", "DeviceClass": "parameters of any type", "ResourceClaim": "the same",
	"ResourceClaimTemplate": "the same", "PodDisruptionBudget": "times in a map", "ResourceSlice": "a list of numbers",
	"Pod": "exit codes of containers", "PodTemplate": "the same", "ReplicationController": "the same", "DaemonSet": "the same",
	"Deployment": "the same", "ReplicaSet": "the same", "StatefulSet": "the same", "CronJob": "the same", "Job": "the same",
	"CertificateSigningRequest": "a list that is a message", "SubjectAccessReview": "the same", "TokenReview": "the same",
	"LocalSubjectAccessReview": "the same", "SelfSubjectReview": "the same",
}

// TestMessagesAreWrittenAsTheirTrees takes upstream's fixtures, in which every field is set.
func TestMessagesAreWrittenAsTheirTrees(t *testing.T) {
	dir, checked := fixtures(t, "HEAD"), 0
	for _, r := range messageKinds() {
		if hasNoFixture(r) {
			continue // k8s.io/api has no fixture of it
		}
		checked++
		appended := checkAppended(t, r, message(t, read(t, fixture(dir, r.GVK())+".pb")))
		if _, is := unusual[r.Kind]; is == appended {
			t.Errorf("%s is written without a tree: %t", r.Kind, appended)
		}
		checkAppended(t, r, nil)
	}
	if checked < 50 {
		t.Errorf("only %d kinds were checked", checked)
	}
}

// TestWhatServersWriteIsReadWithoutATree: otherwise a start is slow.
func TestWhatServersWriteIsReadWithoutATree(t *testing.T) {
	for key, value := range map[string]string{
		"configmaps/default/a": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z",` +
			`"labels":{"app":"a"},"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},` +
			`"f:a":{},"f:b":{}},"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"1\"}":{}}}},"manager":"kubectl",` +
			`"operation":"Update","time":"2026-01-02T03:04:05Z"}],"name":"a","namespace":"default","uid":"1-2"},` +
			`"binaryData":{"x":"AAEC"},"data":{"a":"line\n<\"ä\u2028>","b":""},"immutable":true}`,
		"leases.coordination.k8s.io/kube-node-lease/a": `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":` +
			`{"name":"a"},"spec":{"holderIdentity":"a","leaseDurationSeconds":40,"renewTime":"2026-01-02T03:04:05.123456Z"}}`,
	} {
		stored, err := newLayout().Encode(key, []byte(value), nil)
		if err != nil {
			t.Fatalf("encode %s: %v", key, err)
		}
		r := resourceOf(t, key)
		if r.AppendProtobuf == nil {
			t.Fatalf("%s has no shorter way", key)
		}
		if _, ok := r.AppendProtobuf(nil, message(t, stored)); !ok {
			t.Errorf("%s is not written without a tree", key)
		}
		checkAppended(t, r, message(t, stored))
	}
}

// resourceOf is the resource of a key in the store.
func resourceOf(t *testing.T, key string) *kinds.Resource {
	t.Helper()
	for _, r := range builtin.Catalog().Stored() {
		if name := r.GR().String(); len(key) > len(name) && key[:len(name)+1] == name+"/" {
			return r
		}
	}
	t.Fatalf("no resource has the key %s", key)
	return nil
}

// TestChangedMessagesAreWrittenAsTheirTreesOrNotAtAll changes the fixtures at random: fields are left out, repeated,
// moved and cut, and bytes replaced.
func TestChangedMessagesAreWrittenAsTheirTreesOrNotAtAll(t *testing.T) {
	seed := *appendSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-append-seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	dir := fixtures(t, "HEAD")
	appended := 0
	for _, r := range messageKinds() {
		if hasNoFixture(r) {
			continue
		}
		msg := message(t, read(t, fixture(dir, r.GVK())+".pb"))
		for range *appendRuns {
			changed := msg
			for range 1 + random.IntN(6) {
				changed = change(random, changed, 0)
			}
			if checkAppended(t, r, changed) {
				appended++
			}
		}
	}
	if appended < len(messageKinds())**appendRuns/10 {
		t.Errorf("only %d messages were written", appended)
	}
}

// field is one of a message, with its tag, and where its content begins.
type field struct {
	bytes []byte
	begin int
	typ   protowire.Type
}

// fieldsOf splits a message; nil if it is none.
func fieldsOf(msg []byte) []field {
	var all []field
	for len(msg) > 0 {
		_, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(1, typ, msg[n:])
		if size < 0 {
			return nil
		}
		begin := n
		if typ == protowire.BytesType {
			content, whole := protowire.ConsumeBytes(msg[n:])
			begin = n + whole - len(content)
		}
		all = append(all, field{bytes: msg[:n+size], begin: begin, typ: typ})
		msg = msg[n+size:]
	}
	return all
}

// change changes something in a message, or in one inside of it.
func change(random *rand.Rand, msg []byte, depth int) []byte {
	all := fieldsOf(msg)
	if len(all) == 0 || random.IntN(20) == 0 {
		return mangle(random, msg)
	}
	i := random.IntN(len(all))
	if f := all[i]; f.typ == protowire.BytesType && depth < 8 && random.IntN(4) > 0 {
		number, _, n := protowire.ConsumeTag(f.bytes)
		inside := change(random, f.bytes[f.begin:], depth+1)
		if n > 0 {
			all[i].bytes = protowire.AppendBytes(protowire.AppendTag(nil, number, f.typ), inside)
		}
	} else {
		switch random.IntN(6) {
		case 0, 1, 2:
			all = slices.Delete(all, i, i+1)
		case 3:
			all = slices.Insert(all, random.IntN(len(all)), all[i])
		case 4:
			j := random.IntN(len(all))
			all[i], all[j] = all[j], all[i]
		case 5:
			all[i].bytes = mangle(random, all[i].bytes)
		}
	}
	var out []byte
	for _, f := range all {
		out = append(out, f.bytes...)
	}
	return out
}

// mangle changes bytes, whatever they are.
func mangle(random *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) == 0 {
		return []byte("ab")
	}
	switch i := random.IntN(len(b)); random.IntN(4) {
	case 0:
		return b[:i]
	case 1:
		b[i] ^= 1 << random.IntN(8)
	case 2:
		b[i] = byte(random.IntN(256)) //nolint:gosec // a byte
	case 3:
		return slices.Insert(b, i, []byte("\"\\\u2028{}")[random.IntN(7)])
	}
	return b
}

func FuzzAppendProtobuf(f *testing.F) {
	dir, all := fixtures(f, "HEAD"), messageKinds()
	for i, r := range all {
		if !hasNoFixture(r) {
			f.Add(uint8(i), message(f, read(f, fixture(dir, r.GVK())+".pb")))
		}
	}
	pod := builtintest.Resource(f, "", "v1", "pods")
	f.Add(uint8(slices.IndexFunc(all, func(r *kinds.Resource) bool { return r.Kind == "Pod" })),
		message(f, builtintest.Envelope(f, pod, builtintest.Manifest(f, pod))))
	f.Fuzz(func(t *testing.T, n uint8, msg []byte) { checkAppended(t, all[int(n)%len(all)], msg) })
}
