package main

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fleet is the pods of a cluster, of about 4.6 KB each: owned by ReplicaSets of 20 to
// 50 pods, one container, two managedFields entries, four conditions. They are in the
// order in which an API server lists them. What a cluster makes for each pod is its own
// here too: name, UID, IP, node, times, container ID, and the name of the volume with its
// token, which is in the container's mounts as well. What comes from the template is that
// of its ReplicaSet.
type fleet struct {
	parts [][]byte // what is the same, between the holes
	holes []hole
	pods  []pod
}

// pod is what is special about one pod.
type pod struct {
	set            *replicaSet
	id, token      string // five letters
	uid, container string
	ip             string
	node           int
	created        time.Time
}

// replicaSet is what the pods of one have in common.
type replicaSet struct {
	namespace, app, hash, uid string
	team, image, digest       string
	cpu, memory, port         int
}

// hole appends what pod p, in its state rv, has in that place.
type hole func(b []byte, p *pod, rv int64) []byte

const template = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"<app>-<hash>-<id>","generateName":"<app>-<hash>-",` +
	`"namespace":"<namespace>","uid":"<uid>","resourceVersion":"<rv>","generation":1,"creationTimestamp":"<created>","labels":{"app":"<app>","pod-template-hash":"<hash>","team":"<team>"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"<port>"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<app>-<hash>","uid":"<set-uid>","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"<created>","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"<set-uid>\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"<app>\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"POD_IP\"}":{".":{},"f:name":{},"f:valueFrom":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":<port>,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"<ready>","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"<ip>\"}":{".":{},"f:ip":{}}},"f:startTime":{}}},"subresource":"status"}]},"spec":{"volumes":[{"name":"kube-api-access-<token>","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"<app>","image":"<image>","ports":[{"name":"http","containerPort":<port>,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"cpu":"<cpu>m","memory":"<memory>Mi"},"requests":{"cpu":"100m","memory":"<memory>Mi"}},"volumeMounts":[{"name":"kube-api-access-<token>","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"<node-name>","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"<created>"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"<ready>"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"<ready>"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"<created>"}],"hostIP":"<host-ip>","podIP":"<ip>","podIPs":[{"ip":"<ip>"}],"startTime":"<created>","containerStatuses":[{"name":"<app>","state":{"running":{"startedAt":"<started>"}},"lastState":{},"ready":true,"restartCount":0,"image":"<image>","imageID":"example.org/shop/<app>@sha256:<digest>","containerID":"containerd://<container>","started":true}],"qosClass":"Burstable"}}`

func holes() map[string]hole {
	text := func(of func(p *pod) string) hole {
		return func(b []byte, p *pod, _ int64) []byte { return append(b, of(p)...) }
	}
	number := func(of func(p *pod) int) hole {
		return func(b []byte, p *pod, _ int64) []byte { return strconv.AppendInt(b, int64(of(p)), 10) }
	}
	at := func(of func(p *pod, rv int64) time.Time) hole {
		return func(b []byte, p *pod, rv int64) []byte { return of(p, rv).AppendFormat(b, time.RFC3339) }
	}
	return map[string]hole{
		"app":       text(func(p *pod) string { return p.set.app }),
		"hash":      text(func(p *pod) string { return p.set.hash }),
		"namespace": text(func(p *pod) string { return p.set.namespace }),
		"set-uid":   text(func(p *pod) string { return p.set.uid }),
		"team":      text(func(p *pod) string { return p.set.team }),
		"image":     text(func(p *pod) string { return p.set.image }),
		"digest":    text(func(p *pod) string { return p.set.digest }),
		"id":        text(func(p *pod) string { return p.id }),
		"uid":       text(func(p *pod) string { return p.uid }),
		"token":     text(func(p *pod) string { return p.token }),
		"container": text(func(p *pod) string { return p.container }),
		"ip":        text(func(p *pod) string { return p.ip }),
		"port":      number(func(p *pod) int { return p.set.port }),
		"cpu":       number(func(p *pod) int { return p.set.cpu }),
		"memory":    number(func(p *pod) int { return p.set.memory }),
		"rv":        func(b []byte, _ *pod, rv int64) []byte { return strconv.AppendInt(b, rv, 10) },
		"node-name": func(b []byte, p *pod, _ int64) []byte {
			return strconv.AppendInt(append(b, "node-"...), int64(p.node), 10)
		},
		"host-ip": func(b []byte, p *pod, _ int64) []byte {
			b = strconv.AppendInt(append(b, "10.0."...), int64(p.node>>8), 10)
			return strconv.AppendInt(append(b, '.'), int64(p.node&255), 10)
		},
		"created": at(func(p *pod, _ int64) time.Time { return p.created }),
		"started": at(func(p *pod, _ int64) time.Time { return p.created.Add(3 * time.Second) }),
		// Each change is one of readiness: another time, three times in the object.
		"ready": at(func(p *pod, rv int64) time.Time { return p.created.Add(time.Duration(4+rv%100_000) * time.Second) }),
	}
}

func newFleet(pods int) *fleet {
	f := &fleet{}
	known := holes()
	for rest := template; ; {
		before, behind, more := strings.Cut(rest, "<")
		f.parts = append(f.parts, []byte(before))
		if !more {
			break
		}
		name, behind, _ := strings.Cut(behind, ">")
		f.holes = append(f.holes, known[name])
		rest = behind
	}
	r := rand.New(rand.NewPCG(2026, 1)) //nolint:gosec // the same pods each time
	nodes := max(pods/60, 3)
	for len(f.pods) < pods {
		set := newReplicaSet(r)
		for range min(20+r.IntN(31), pods-len(f.pods)) {
			n := len(f.pods)
			f.pods = append(f.pods, pod{
				set: set, id: letters(r, 5), token: letters(r, 5), uid: newUID(r), container: digits16(r, 64),
				ip:      "10." + strconv.Itoa(128+n>>16) + "." + strconv.Itoa(n>>8&255) + "." + strconv.Itoa(n&255),
				node:    r.IntN(nodes),
				created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(r.IntN(1e7)) * time.Second),
			})
		}
	}
	slices.SortFunc(f.pods, func(a, b pod) int {
		return cmp.Or(strings.Compare(a.set.namespace, b.set.namespace), strings.Compare(a.set.app, b.set.app),
			strings.Compare(a.set.hash, b.set.hash), strings.Compare(a.id, b.id))
	})
	return f
}

func newReplicaSet(r *rand.Rand) *replicaSet {
	app := []string{
		"checkout", "catalog", "search-api", "payments", "web", "mailer", "ingest", "report-worker",
	}[r.IntN(8)] + "-" + strconv.Itoa(r.IntN(1000))
	return &replicaSet{
		namespace: "prod-" + strconv.Itoa(r.IntN(100)), app: app, hash: letters(r, 10), uid: newUID(r),
		team:   "team-" + strconv.Itoa(r.IntN(30)),
		image:  "example.org/shop/" + app + ":1." + strconv.Itoa(r.IntN(60)) + "." + strconv.Itoa(r.IntN(10)),
		digest: digits16(r, 64), cpu: 100 * (1 + r.IntN(20)), memory: 64 << r.IntN(6), port: 8000 + r.IntN(100),
	}
}

// letters returns what Kubernetes makes random names of.
func letters(r *rand.Rand, n int) string { return random(r, n, "bcdfghjklmnpqrstvwxz2456789") }

func digits16(r *rand.Rand, n int) string { return random(r, n, "0123456789abcdef") }

func newUID(r *rand.Rand) string {
	return digits16(r, 8) + "-" + digits16(r, 4) + "-4" + digits16(r, 3) + "-a" + digits16(r, 3) + "-" + digits16(r, 12)
}

func random(r *rand.Rand, n int, of string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = of[r.IntN(len(of))]
	}
	return string(b)
}

// write appends pod n in its state rv.
func (f *fleet) write(b *bytes.Buffer, n int, rv int64) {
	p := &f.pods[n]
	for i, part := range f.parts {
		b.Write(part)
		if i < len(f.holes) {
			b.Write(f.holes[i](b.AvailableBuffer(), p, rv))
		}
	}
}
