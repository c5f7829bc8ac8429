package attacks

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	looseResource   = "/apis/attacks.example.com/v1/namespaces/default/looses"
	// costlyPattern is refused by nothing, and needs a thousand states for each byte.
	costlyPattern = `^(([a-z0-9]{1,30}){1,30}x?){1}$`
)

// definition is a CustomResourceDefinition with a schema for spec.
func definition(plural, kind, spec string) string {
	return fmt.Sprintf(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.attacks.example.com"},
"spec":{"group":"attacks.example.com","scope":"Namespaced","names":{"plural":%[1]q,"singular":%[3]q,"kind":%[2]q,"listKind":"%[2]sList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%[4]s}}}}]}}`,
		plural, kind, strings.ToLower(kind), spec)
}

// costlyDefinitions makes, changes and deletes definitions with large schemas.
func costlyDefinitions() Attack {
	return Attack{
		Name:  "costly-definitions",
		About: "256 clients that send definitions of 3 000 properties with patterns, and of 500 CEL rules",
		Short: refusedWithin, Full: 15 * time.Second, Refused: []string{"processor"}, Expected: []string{"429"},
		run: func(ctx context.Context, a *Attacker) error {
			var properties, rules strings.Builder
			for i := range 3000 {
				fmt.Fprintf(&properties,
					`,"p%d":{"type":"string","pattern":"^([a-z0-9]{1,60}[A-Z]{0,60}){1,4}%d$","maxLength":100}`, i, i)
			}
			for i := range 500 {
				fmt.Fprintf(&rules,
					`,"r%d":{"type":"integer","x-kubernetes-validations":[{"rule":"self > %d && self * 3 < 100000 + %d"}]}`, i, i,
					i)
			}
			return repeat(ctx, a, manyClients, func(i int) request {
				plural := fmt.Sprintf("costly%d", i%manyClients)
				inner := properties.String()[1:]
				if i%2 == 1 {
					inner = rules.String()[1:]
				}
				body := definition(plural, "Costly"+fmt.Sprint(i%manyClients), `{"type":"object","properties":{`+inner+`}}`)
				if i/manyClients%2 == 1 {
					return request{http.MethodDelete, definitionsPath + "/" + plural + ".attacks.example.com", jsonMedia, ""}
				}
				return request{http.MethodPost, definitionsPath, jsonMedia, body}
			})
		},
	}
}

// costlyPatterns sends objects to a definition whose pattern is costly.
func costlyPatterns() Attack {
	return Attack{
		Name: "costly-patterns", About: "256 clients that send 2 MB strings to a definition with a costly pattern",
		Short: refusedWithin, Full: 10 * time.Second, Refused: []string{"processor", "bodies"}, Expected: []string{"429"},
		run: func(ctx context.Context, a *Attacker) error {
			web := a.web()
			defer web.CloseIdleConnections()
			if _, err := a.send(ctx, web, request{
				http.MethodPost, definitionsPath, jsonMedia,
				definition("patterns", "Pattern",
					`{"type":"object","properties":{"a":{"type":"string","pattern":`+fmt.Sprintf("%q", costlyPattern)+`}}}`),
			}); err != nil {
				return err
			}
			long := strings.Repeat("a", 2<<20)
			return repeat(ctx, a, manyClients, func(i int) request {
				return request{
					http.MethodPost, "/apis/attacks.example.com/v1/namespaces/default/patterns" + dryRun, jsonMedia, fmt.Sprintf(
						`{"apiVersion":"attacks.example.com/v1","kind":"Pattern",`+
							`"metadata":{"generateName":"p-"},"spec":{"a":%q}}`, long[:len(long)>>(i%3*2)]),
				}
			})
		},
	}
}
