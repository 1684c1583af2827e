# Runs at the first log-on of a Windows guest: writes the files and takes the steps of steps.json, which
# lies next to this script, and keeps what each of them did in C:\ProgramData\vgpumgr\first-boot.json.
$ErrorActionPreference = 'Stop'
$kept = 'C:\ProgramData\vgpumgr'
New-Item -ItemType Directory -Force -Path $kept | Out-Null
$report = Join-Path $kept 'first-boot.json'
$plan = Get-Content -Raw -Encoding UTF8 (Join-Path $PSScriptRoot 'steps.json') | ConvertFrom-Json
$steps = New-Object System.Collections.ArrayList

function Save-Report([bool] $over) {
    @{ over = $over; steps = $steps } | ConvertTo-Json -Depth 4 | Set-Content -Encoding UTF8 $report
}

Save-Report $false
foreach ($file in @($plan.files)) {
    if ($null -eq $file) { continue }
    try {
        New-Item -ItemType Directory -Force -Path (Split-Path $file.path) | Out-Null
        [IO.File]::WriteAllText($file.path, $file.content)
        [void] $steps.Add(@{ name = $file.path; status = 0; output = '' })
    } catch {
        [void] $steps.Add(@{ name = $file.path; status = 1; output = "$_" })
    }
    Save-Report $false
}
foreach ($step in @($plan.steps)) {
    if ($null -eq $step) { continue }
    try {
        $program, $arguments = $step.run
        $said = & $program @arguments 2>&1 | Out-String
        $status = $LASTEXITCODE
    } catch {
        $said = "$_"
        $status = 1
    }
    $tail = if ($said.Length -gt 500) { $said.Substring($said.Length - 500) } else { $said }
    [void] $steps.Add(@{ name = $step.name; status = $status; output = $tail })
    Save-Report $false
}
Save-Report $true
