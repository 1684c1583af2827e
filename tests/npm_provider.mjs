// The OpenID provider of npm, with one client and one user: `node npm_provider.mjs PORT BACK`.
import * as oidc from "oidc-provider";

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const provider = new oidc.Provider(issuer, {
  clients: [
    {
      client_id: "vgpumgr",
      client_secret: "s3cret/+",
      redirect_uris: [process.argv[3]],
      grant_types: [
        "authorization_code",
        "urn:ietf:params:oauth:grant-type:device_code",
      ],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  findAccount: async (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, preferred_username: id, groups: ["cad", "ops"] }),
  }),
  cookies: { keys: ["not a secret"] },
});
provider.listen(port, "127.0.0.1", () => console.log("up"));
