module github.com/elector-go/elector/internal/release

go 1.26.7

require golang.org/x/mod v0.43.0

require go.yaml.in/yaml/v3 v3.0.5
