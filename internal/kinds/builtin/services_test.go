package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWrongClusterIPsOfAServiceAreTheOnlyAnswer: upstream's allocator refuses them before the rules of the kind are
// asked, which would name the ports and the name as well.
func TestWrongClusterIPsOfAServiceAreTheOnlyAnswer(t *testing.T) {
	r := byPlural(t, "services")
	const (
		ports = `"ports":null`
		wrong = `spec.clusterIPs[0]: Invalid value: "Nonex": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`
	)
	for _, c := range []struct{ now, was, want string }{
		{`"clusterIP":"Nonex"`, "", wrong},
		{`"ipFamilies":["IPv4","IPv4"]`, "", `spec.ipFamilies[1]: Duplicate value: "IPv4"`},
		{
			`"ipFamilyPolicy":"Dual"`, "",
			`spec.ipFamilyPolicy: Unsupported value: "Dual": supported values: "PreferDualStack", ` +
				`"RequireDualStack", "SingleStack"`,
		},
		{`"clusterIP":"Nonex","clusterIPs":["Nonex"]`, `"clusterIP":"10.0.0.1"`, wrong},
		// What an update leaves as it was is not checked, and the others are asked.
		{
			`"clusterIP":"Nonex","clusterIPs":["Nonex"]`, `"clusterIP":"Nonex","clusterIPs":["Nonex"]`,
			`spec.ports: Required value`,
		},
		{`"type":"ExternalName","externalName":""`, "", `spec.externalName: Required value`},
	} {
		var old *unstructured.Unstructured
		if c.was != "" {
			old = changed(t, r, `{"spec":{`+c.was+`}}`)
		}
		name := `"metadata":{"name":"a.b"},`
		if old != nil || strings.Contains(c.now, "ExternalName") {
			name = ""
		}
		errs, _ := r.Type.Validate(changed(t, r, `{`+name+`"spec":{`+c.now+`,`+ports+`}}`), old)
		if len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("%s after %q: %v, want only %s", c.now, c.was, errs, c.want)
		}
	}
}
