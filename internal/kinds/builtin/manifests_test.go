package builtin_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/wire"
)

var update = flag.Bool("update", false, "write the golden files")

func TestManifestOfEveryKindIsDefaultedAndValid(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		t.Run(r.GR().String(), func(t *testing.T) {
			u := builtintest.Written(t, r, builtintest.Manifest(t, r))
			if errs, _ := r.Type.Validate(u, nil); len(errs) > 0 {
				t.Errorf("invalid: %v", errs.ToAggregate())
			}
			if errs, _ := r.Type.Validate(u, u.DeepCopy()); len(errs) > 0 {
				t.Errorf("an update that changes nothing is invalid: %v", errs.ToAggregate())
			}
			encoded, err := wire.Canonical(u.Object)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, encoded, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := filepath.Join("testdata", "golden", builtintest.File(r)+".json")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("golden file differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultingTwiceChangesNothing(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		once := builtintest.Written(t, r, builtintest.Manifest(t, r))
		body, err := once.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once.Object, builtintest.Written(t, r, body).Object); diff != "" {
			t.Errorf("%s: the second time differs (-once +twice):\n%s", r.GR(), diff)
		}
	}
}

func TestProtobufAndJSONOfEveryKindDecodeEqually(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		t.Run(r.GR().String(), func(t *testing.T) {
			body := builtintest.Manifest(t, r)
			fromProtobuf, err := r.Type.DecodeProtobuf(builtintest.Envelope(t, r, body))
			if err != nil {
				t.Fatal(err)
			}
			want, got := builtintest.Written(t, r, body), builtintest.Written(t, r, fromProtobuf)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("protobuf differs from JSON (-json +protobuf):\n%s", diff)
			}
		})
	}
}

func TestEveryExpectedKindIsServed(t *testing.T) {
	got := map[string][]string{}
	for _, g := range builtin.Catalog().Groups() {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				got[r.GVK().GroupVersion().String()] = append(got[r.GVK().GroupVersion().String()], r.Plural)
			}
		}
	}
	want := map[string]string{
		"v1": "bindings configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes pods " +
			"podtemplates replicationcontrollers resourcequotas secrets serviceaccounts services",
		"admissionregistration.k8s.io/v1": "mutatingadmissionpolicies mutatingadmissionpolicybindings " +
			"mutatingwebhookconfigurations " +
			"validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations",
		"apiextensions.k8s.io/v1":   "customresourcedefinitions",
		"apiregistration.k8s.io/v1": "apiservices",
		"apps/v1":                   "controllerrevisions daemonsets deployments replicasets statefulsets",
		"authentication.k8s.io/v1":  "selfsubjectreviews tokenreviews",
		"authorization.k8s.io/v1": "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews " +
			"subjectaccessreviews",
		"autoscaling/v1":                  "horizontalpodautoscalers",
		"autoscaling/v2":                  "horizontalpodautoscalers",
		"batch/v1":                        "cronjobs jobs",
		"certificates.k8s.io/v1":          "certificatesigningrequests clustertrustbundles podcertificaterequests",
		"coordination.k8s.io/v1":          "leases",
		"discovery.k8s.io/v1":             "endpointslices",
		"events.k8s.io/v1":                "events",
		"flowcontrol.apiserver.k8s.io/v1": "flowschemas prioritylevelconfigurations",
		"networking.k8s.io/v1":            "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
		"node.k8s.io/v1":                  "runtimeclasses",
		"policy/v1":                       "poddisruptionbudgets",
		"rbac.authorization.k8s.io/v1":    "clusterrolebindings clusterroles rolebindings roles",
		"resource.k8s.io/v1":              "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourceslices",
		"scheduling.k8s.io/v1":            "priorityclasses",
		"storage.k8s.io/v1": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments " +
			"volumeattributesclasses",
		"storagemigration.k8s.io/v1": "storageversionmigrations",
	}
	for _, gv := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(strings.Fields(want[gv]), got[gv]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gv, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d groups and versions, want %d", len(got), len(want))
	}
}
