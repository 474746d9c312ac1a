package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/elector-go/elector/internal/must"
)

const deploy = "../../deploy"

// A pod has the checked fields of a Pod.
type pod struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	SecurityContext    struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Volumes        []struct{ Name string }
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
}

type container struct {
	Name          string
	Command, Args []string
	Env           []struct{ Name string }
	Ports         []struct {
		Name          string
		ContainerPort string `yaml:"containerPort"`
	}
	ReadinessProbe probe                   `yaml:"readinessProbe"`
	LivenessProbe  probe                   `yaml:"livenessProbe"`
	VolumeMounts   []struct{ Name string } `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// object is a manifest with fields of all kinds.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Rules    []rule
	RoleRef  named `yaml:"roleRef"`
	Subjects []named
	Spec     struct {
		Selector map[string]any
		Ports    []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]any }
			Spec     yaml.Node
		}
	}
}

type rule struct {
	APIGroups     []string `yaml:"apiGroups"`
	Resources     []string
	ResourceNames []string `yaml:"resourceNames"`
	Verbs         []string
}

type named struct{ Kind, Name string }

// objects returns the manifests in a file.
func objects(t *testing.T, file string) (all []object) {
	t.Helper()
	for in := yaml.NewDecoder(bytes.NewReader(must.Get(os.ReadFile(file))(t))); ; {
		var o object
		err := in.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		all = append(all, o)
	}
}

// TestManifests holds that a manifest has what it names: ports, volumes, variables and labels; that the
// command runs with what "elector run" requires; and that nothing is root.
func TestManifests(t *testing.T) {
	files := must.Get(filepath.Glob(deploy + "/*.yaml"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		labels, ports, runs := map[string]any{}, []string{}, 0
		for _, o := range objects(t, file) {
			switch o.Kind {
			case "Deployment":
				labels = o.Spec.Template.Metadata.Labels
				match, _ := o.Spec.Selector["matchLabels"].(map[string]any)
				assert.True(t, match["app"] != nil && match["app"] == labels["app"], "%s: it selects %v, and its Pods are %v", file, match, labels)
				named, run := checkPod(t, file, &o.Spec.Template.Spec)
				ports, runs = append(ports, named...), runs+run
			case "Service":
				app := o.Spec.Selector["app"]
				assert.True(t, app != nil && app == labels["app"], "%s: the Service selects %v, and the Pods are %v", file, o.Spec.Selector, labels)
				assert.True(t, file == lease || len(o.Spec.Selector) == 1, "%s: the Service selects %v", file, o.Spec.Selector)
				for _, p := range o.Spec.Ports {
					assert.Contains(t, ports, p.TargetPort, "%s: where the Service leads to", file)
				}
			case "Lease", "ServiceAccount", "Role", "RoleBinding":
				assert.Equal(t, lease, file, "a %s: TestLeaseManifest looks at one file", o.Kind)
			default:
				assert.Fail(t, "what is this?", "%s: kind %q", file, o.Kind)
			}
		}
		assert.Equal(t, 1, runs, "%s: containers that run elector", file)
	}
}

const lease = deploy + "/kubernetes-lease.yaml"

// TestLeaseManifest holds that the Pods have the rights that they need, and no others, and that the Service
// leads to the leader, though readiness says nothing of it.
func TestLeaseManifest(t *testing.T) {
	of := make(map[string]object)
	for _, o := range objects(t, lease) {
		require.NotContains(t, of, o.Kind, "a second one")
		of[o.Kind] = o
	}
	var p pod
	deployment := of["Deployment"].Spec
	require.NoError(t, deployment.Template.Spec.Decode(&p))
	c := p.Containers[0]
	line := slices.Concat(c.Command, c.Args)
	after := func(word string) string { return line[slices.Index(line, word)+1] }
	name := of["Lease"].Metadata.Name
	assert.Contains(t, after("run"), "k8s:///"+name+"?", "the URL names the Lease")

	assert.Equal(t, []rule{
		{[]string{"coordination.k8s.io"}, []string{"leases"}, []string{name}, []string{"get", "patch", "watch"}},
		{[]string{""}, []string{"pods"}, nil, []string{"get", "list", "watch", "patch"}},
	}, of["Role"].Rules)
	assert.Equal(t, named{"Role", of["Role"].Metadata.Name}, of["RoleBinding"].RoleRef)
	assert.Equal(t, []named{{"ServiceAccount", of["ServiceAccount"].Metadata.Name}}, of["RoleBinding"].Subjects)
	assert.Equal(t, of["ServiceAccount"].Metadata.Name, p.ServiceAccountName)

	label := after("--label")
	assert.Equal(t, map[string]any{"app": "reindex", label: "leader"}, of["Service"].Spec.Selector)
	assert.NotContains(t, deployment.Template.Metadata.Labels, label, "each new Pod would have it")
	assert.Equal(t, "/healthz", c.ReadinessProbe.HTTPGet.Path, "a rollout waits until each Pod is ready")
}

// checkPod returns the names of a Pod's ports, and how many of its containers run the command.
func checkPod(t *testing.T, file string, spec *yaml.Node) (ports []string, runs int) {
	t.Helper()
	var p pod
	require.NoError(t, spec.Decode(&p), file)
	assert.True(t, p.SecurityContext.RunAsNonRoot, "%s: it may run as root", file)
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		of := file + ", container " + c.Name
		for _, m := range c.VolumeMounts {
			assert.Contains(t, p.Volumes, m, "%s: its volume", of)
		}
		line := slices.Concat(c.Command, c.Args)
		for _, name := range regexp.MustCompile(`\$\(([A-Z_]+)\)`).FindAllStringSubmatch(strings.Join(line, " "), -1) {
			assert.Contains(t, c.Env, struct{ Name string }{name[1]}, "%s: its variable", of)
		}
		var own []string
		for _, port := range c.Ports {
			own = append(own, port.Name)
			assert.Contains(t, line, ":"+port.ContainerPort, "%s: its port in its command line", of)
		}
		ports = append(ports, own...)
		if slices.Contains(line, "run") {
			runs++
			at := slices.Index(line, "--")
			assert.True(t, at >= 0 && at < len(line)-1 && slices.Contains(line[:at], "--http"), "%s: elector run URL /election --http ADDRESS -- PROGRAM is wanted: %q", of, line)
		}
		for _, probe := range []probe{c.ReadinessProbe, c.LivenessProbe} {
			if get := probe.HTTPGet; get.Path != "" {
				assert.Contains(t, []string{"/leader", "/replica", "/healthz", "/status"}, get.Path, "%s: what a probe asks", of)
				assert.Contains(t, own, get.Port, "%s: where a probe asks", of)
			}
		}
	}
	return ports, runs
}

// TestDockerfile holds that what it copies exists, that it builds with a Go that the module accepts, stamps
// the version where the command looks for it, and ends without root.
func TestDockerfile(t *testing.T) {
	data := must.Get(os.ReadFile(deploy + "/Dockerfile"))(t)
	text := string(data)
	for _, m := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for from := range strings.FieldsSeq(m[1]) {
			_, err := os.Stat(filepath.Join("../..", from))
			assert.NoError(t, err, "COPY")
		}
	}
	command := must.Get(os.ReadFile("go.mod"))(t)
	for _, m := range regexp.MustCompile(`(?m) => (\S+)$`).FindAllStringSubmatch(string(command), -1) {
		assert.Contains(t, text, "COPY "+path.Join("cmd/elector", m[1], "go.mod")+" ", "go mod download needs it")
	}
	wanted := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(command))
	image := regexp.MustCompile(`golang:(\S+)`).FindStringSubmatch(text)
	assert.True(t, image != nil && strings.HasPrefix(wanted[1], image[1]+"."), "it builds with %q, and go.mod wants %s", image, wanted[1])
	// TestDist of the scripts holds that the linker finds it.
	const stamp = "-X github.com/elector-go/elector/cmd/elector/internal/cli.release=$"
	dist := must.Get(os.ReadFile("../../scripts/dist.sh"))(t)
	assert.Contains(t, text, stamp)
	assert.Contains(t, string(dist), stamp)
	for _, from := range regexp.MustCompile(`(?m)^FROM (gcr\S+)`).FindAllStringSubmatch(text, -1) {
		assert.Regexp(t, "nonroot$", from[1], "it runs as root")
	}
}
